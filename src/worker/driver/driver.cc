// SPDX-License-Identifier: Apache-2.0
// dlopen and dlsym over the table.
#include "worker/driver/driver.h"

#include <dlfcn.h>

#include "calls/errors.h"

namespace rgpu::worker {

namespace {
Driver the_driver;
}

Result<Driver> Driver::open(const std::string &path)
{
    Driver d;
    d.library_ = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!d.library_) return error(ErrorKind::unavailable, "cannot open the driver: %s", dlerror());
    for (size_t i = 0; i < calls::kCallCount; i++)
        d.symbols_[i] = dlsym(d.library_, calls::kCalls[i].symbol.data());
    auto init = d.call<CallId::cuInit>();
    if (!init)
        return error(ErrorKind::unavailable, "%s is no CUDA driver: it has no cuInit",
                     path.c_str());
    if (CUresult r = init(0)) {
        const char *name = calls::error_name(r);
        return error(ErrorKind::unavailable, "%s: cuInit: %s", path.c_str(),
                     name ? name : "unknown error");
    }
    return d;
}

void *Driver::symbol(const char *name) const { return dlsym(library_, name); }

const Driver &driver() { return the_driver; }
void set_driver(Driver d) { the_driver = d; }

}  // namespace rgpu::worker
