// SPDX-License-Identifier: Apache-2.0
#include "softgpu/driver/api/symbols.h"

namespace rgpu::softgpu::driver {

void *symbol_address(calls::CallId id)
{
    static void *const addresses[] = {
#define ROW(symbol, ...) reinterpret_cast<void *>(&::symbol),
#include "calls/table.def"
    };
    return addresses[static_cast<size_t>(id)];
}

}  // namespace rgpu::softgpu::driver
