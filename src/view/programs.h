// SPDX-License-Identifier: Apache-2.0
// Where a job's own programs are: nvidia-smi.
#pragma once

#include <string>

namespace rgpu::view {

// The directory that holds the folder of libcuda.so.1 and its neighbours.
std::string libraries_root(const std::string &interposer_dir);

// The directory beside that of libcuda.so.1; empty where nvidia-smi is not in it.
std::string programs_dir(const std::string &interposer_dir);

// PATH with the directory at its end, where a program of the site's own goes first; without a
// second copy.
std::string search_path(const std::string &present, const std::string &programs_dir);

}  // namespace rgpu::view
