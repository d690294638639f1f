// SPDX-License-Identifier: Apache-2.0
// What is wrong with a task's surroundings before its program starts, in words: cause and cure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plugin/spank/options.h"
#include "plugin/spank/settings.h"

namespace rgpu::plugin {

// The folder of the interposer has no libcuda.so.1 that can be read; empty where it has.
std::string interposer_advice(const Settings &settings);

// CUDA_VISIBLE_DEVICES names a GPU by a number that is none of the `gpus` of the lease; empty where
// it does not.
std::string devices_advice(const std::string &visible, unsigned gpus);

// MASTER_ADDR cannot be resolved here; empty where it can, or is not set. Asks the resolver.
std::string master_advice(const std::string &master);

// Options of the whole job, given to a step of one that runs: they change nothing. Empty where
// there are none.
std::string step_advice(const JobOptions &options, uint32_t job);

// Whether an srun with this command line starts a step of a job that is there (--jobid); the last
// `program` words are its program's.
bool names_job(const std::vector<std::string> &line, size_t program);

// "0,1,2" for three.
std::string all_devices(unsigned gpus);

}  // namespace rgpu::plugin
