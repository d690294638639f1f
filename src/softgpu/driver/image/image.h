// SPDX-License-Identifier: Apache-2.0
// What a program loads as device code: PTX text, a fat binary, the wrapper that nvcc makes around
// one.
#pragma once

#include <memory>
#include <string>

#include "calls/cuda_api.h"
#include "softgpu/compiler.h"

namespace rgpu::softgpu::driver {

// Reads the image for a device of this compute capability. `max_registers` limits all kernels'
// registers, 0 does not. On failure `log` says why.
CUresult load_image(const void *image, unsigned compute_capability, unsigned max_registers,
                    std::shared_ptr<const PtxModule> &module, std::string &log);
// The same for the contents of a file.
CUresult load_file(const char *path, unsigned compute_capability, unsigned max_registers,
                   std::shared_ptr<const PtxModule> &module, std::string &log);
// Finds the PTX in an image without reading it further.
CUresult find_ptx(const void *image, unsigned compute_capability, std::string &ptx,
                  std::string &log);
// PtxModule::limit_registers for 1 and more.
CUresult limit_registers(std::string &ptx, unsigned most, std::string &log);

CUresult to_result(const Error &);

}  // namespace rgpu::softgpu::driver
