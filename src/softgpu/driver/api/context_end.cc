// SPDX-License-Identifier: Apache-2.0
#include "softgpu/driver/api/context_end.h"

#include "calls/export_tables.h"
#include "softgpu/driver/graph/capture.h"
#include "softgpu/driver/state/array.h"
#include "softgpu/driver/state/context.h"
#include "softgpu/driver/state/driver.h"
#include "softgpu/driver/state/event.h"
#include "softgpu/driver/state/library.h"
#include "softgpu/driver/state/memory.h"
#include "softgpu/driver/state/module.h"

namespace rgpu::softgpu::driver {

void end_context(Context &c)
{
    forget_captures(c);
    (void)c.synchronize();
    c.kill();
    calls::forget_context_storage(c.handle());
    Driver &d = driver();
    const auto of_this = [&c](const auto &object) { return &object.context == &c; };
    d.streams.remove_if(of_this);
    d.events.remove_if(of_this);
    d.arrays.remove_if(of_this);
    forget_library_modules(c);
    forget_modules(c);
    for (const Range &r : d.ranges.remove_all(&c)) release_range(r);
    c.clear();
}

}  // namespace rgpu::softgpu::driver
