// SPDX-License-Identifier: Apache-2.0
// What other calls ask about memory that cuMemMap has put somewhere.
#pragma once

#include <cstdint>

namespace rgpu::softgpu::driver {

// In which forms (CUmemAllocationHandleType) other processes may be given it; 0 where none is
// mapped. Any thread.
unsigned long long mapped_handle_types(uint64_t address);

}  // namespace rgpu::softgpu::driver
