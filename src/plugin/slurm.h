// SPDX-License-Identifier: Apache-2.0
// Slurm's SPANK header as C sees it: its own prototypes of the callbacks stand outside extern "C".
#pragma once

extern "C" {
#include <slurm/spank.h>
}
