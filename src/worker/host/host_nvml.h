// SPDX-License-Identifier: Apache-2.0
// NVML of the host, for what rgpud wants to know of its GPUs. nvml.h is not needed to build; what
// is not there, or does not answer, is left out.
#pragma once

#include <dlfcn.h>

#include <string>
#include <vector>

#include "util/result.h"

namespace rgpu::worker {

class HostNvml {
public:
    using Device = struct nvmlDevice_st *;

    // Opened and started, until the process ends. Fails with `unavailable` where it is not here,
    // `internal` where it does not start.
    static Result<HostNvml> open();

    // Calls the function of this name if NVML has it; true when it answered.
    template <class... A> bool ask(const char *name, A... arguments) const
    {
        auto function = reinterpret_cast<int (*)(A...)>(dlsym(library_, name));
        return function && function(arguments...) == 0;
    }
    // All that it has, in its order.
    std::vector<Device> devices() const;
    // Empty where it is not told.
    std::string uuid(Device device) const;

private:
    explicit HostNvml(void *library) : library_(library) {}
    void *library_;
};

}  // namespace rgpu::worker
