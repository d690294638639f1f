// SPDX-License-Identifier: Apache-2.0
// A kernel launch: checked as CUDA checks it, then run by the engine. graph/submit.h gives it to a
// stream.
#pragma once

#include <cstdint>
#include <memory>

#include "calls/cuda_api.h"
#include "softgpu/driver/state/module.h"

namespace rgpu::softgpu::driver {

// A kernel's parameter block, aligned for any type that PTX has. Copies share it.
class Parameters {
public:
    Parameters() = default;
    explicit Parameters(size_t bytes);
    uint8_t *data() { return bytes_.get(); }
    const uint8_t *data() const { return bytes_.get(); }
    size_t size() const { return size_; }

private:
    struct Free {
        void operator()(uint8_t *) const;
    };
    std::shared_ptr<uint8_t> bytes_;
    size_t size_ = 0;
};

// Copies share the parameter block: it is not changed once made.
struct KernelLaunch {
    std::shared_ptr<Function> function;
    std::shared_ptr<const LoadedKernel> code;
    Dim3 grid, block;
    unsigned dynamic_shared = 0;
    bool cooperative = false;
    Parameters parameters;
};

// Reads the arguments in one of the two ways in which cuLaunchKernel takes them.
CUresult read_arguments(const softgpu::Kernel &, void *const *arguments, void *const *extra,
                        Parameters &);
// Dimensions and resources against the device's limits; compiles the kernel if it must.
CUresult prepare(KernelLaunch &);
// On the calling thread. A fault becomes the context's error.
void perform(Context &, const KernelLaunch &);

// How many blocks of this shape fit on a multiprocessor.
unsigned resident_blocks(const Function &, unsigned threads, size_t dynamic_shared);

}  // namespace rgpu::softgpu::driver
