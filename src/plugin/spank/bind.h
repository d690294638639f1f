// SPDX-License-Identifier: Apache-2.0
// Which of a step's GPUs each of its tasks sees: the value of --rgpu-bind.
#pragma once

#include <string_view>
#include <vector>

#include "util/result.h"

namespace rgpu::plugin {

struct Bind {
    enum Kind { none, single, map } kind = none;
    unsigned tasks_per_gpu = 1;  // of single
    std::vector<unsigned> gpus;  // of map
};

// "none": every task sees all. "closest": the same, as all GPUs of a lease are equally far from the
// node. "single:N": one GPU for each N tasks, and round again. "map:0,1": the first task sees GPU
// 0, the second 1, and round again.
Result<Bind> parse_bind(std::string_view text);

// --rgpus-per-step: how many of the job's GPUs a step has for itself, at least 1.
Result<unsigned> parse_per_step(std::string_view text);

// What task number `task` of the node sees, of the step's GPUs `step` (their places in the lease,
// in order). ErrorKind::invalid where the step has no such GPU.
Result<std::vector<unsigned>> gpus_of_task(const Bind &bind, const std::vector<unsigned> &step,
                                           unsigned task);

}  // namespace rgpu::plugin
