#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# numba-cuda on the software GPU: some of the tests that its own package carries;
# t/long/t0121-numba.t runs all of them.
. "$(dirname "$0")/lib/tap.sh"
. "$(dirname "$0")/lib/python.sh"
. "$(dirname "$0")/lib/numba.sh"

numba_suite cudadrv.test_cuda_driver cudadrv.test_cuda_ndarray cudadrv.test_events \
    cudadrv.test_managed_alloc \
    cudapy.test_constmem cudapy.test_cooperative_groups cudapy.test_exception \
    cudapy.test_stream_api cudapy.test_sync
