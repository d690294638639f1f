// SPDX-License-Identifier: Apache-2.0
// Times and requests in the words that `rgpu why` and the prologue tell people.
#pragma once

#include <cstdint>
#include <string>

#include "util/units.h"

namespace rgpu::cli {

// "2026-11-25T01:02:03" in the clock of this host, as Slurm prints it; "-" for 0. Any thread.
std::string clock_text(int64_t seconds_since_1970);

// What a job asks of the pool.
struct Wanted {
    unsigned gpus = 0;
    std::string type;  // "" if any will do
    ShareRange share;  // of each GPU
    unsigned nodes = 1;
};

// "2 GPUs of type a100 (50% of each) on each of 2 nodes".
std::string to_text(const Wanted &);

}  // namespace rgpu::cli
