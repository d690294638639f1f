// SPDX-License-Identifier: Apache-2.0
// What frameworks that compile kernels on the node (XLA, Triton) must be told where the leased GPUs
// are software GPUs: these run PTX, and ptxas makes machine code of it. A stand-in hands the PTX
// through (contrib/softgpu-ptxas).
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "view/gpus.h"

namespace rgpu::view {

// A folder that looks to them like a CUDA toolkit with the stand-in in bin/, beside that of
// libcuda.so.1; empty where it is not there.
std::string toolkit_dir(const std::string &interposer_dir);
std::string ptxas_in(const std::string &toolkit_dir);

// A variable's value without what says that the toolkit is there: a container that a job starts has
// it at another place, and gets the job's variables. Empty where it says nothing else.
std::string without_toolkit(const std::string &value, const std::string &toolkit_dir);

// The variables to set and their values; none where a GPU is a real one. `present` gives a
// variable's value in the job, empty where it is not set: what the job says stays.
Variables compiler_variables(const std::vector<Gpu> &, const std::string &toolkit_dir,
                             const std::function<std::string(const char *)> &present);

}  // namespace rgpu::view
