// SPDX-License-Identifier: Apache-2.0
#include "softgpu/driver/state/driver.h"

namespace rgpu::softgpu::driver {

Driver &driver()
{
    static auto *d = new Driver;
    return *d;
}

}  // namespace rgpu::softgpu::driver
