#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# numba-cuda's own tests on the software GPU: all that its package carries, against the list of
# those that are known to fail.
. "$(dirname "$0")/../lib/tap.sh"
. "$(dirname "$0")/../lib/python.sh"
. "$(dirname "$0")/../lib/numba.sh"

numba_suite
