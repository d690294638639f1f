// SPDX-License-Identifier: Apache-2.0
#include "softgpu/driver/state/launch.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "softgpu/driver/base/log.h"
#include "softgpu/driver/base/printing.h"
#include "softgpu/driver/state/attributes.h"
#include "softgpu/driver/state/context.h"
#include "softgpu/driver/state/driver.h"

namespace rgpu::softgpu::driver {

namespace {

constexpr std::align_val_t kAlign{64};

CUresult to_result(FaultKind kind)
{
    switch (kind) {
    case FaultKind::illegal_address: return CUDA_ERROR_ILLEGAL_ADDRESS;
    case FaultKind::misaligned_address: return CUDA_ERROR_MISALIGNED_ADDRESS;
    case FaultKind::assertion: return CUDA_ERROR_ASSERT;
    case FaultKind::illegal_instruction: return CUDA_ERROR_ILLEGAL_INSTRUCTION;
    case FaultKind::stack_overflow: return CUDA_ERROR_HARDWARE_STACK_ERROR;
    case FaultKind::deadlock: return CUDA_ERROR_LAUNCH_TIMEOUT;
    case FaultKind::out_of_resources: return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
    case FaultKind::trap: break;
    }
    return CUDA_ERROR_LAUNCH_FAILED;
}

}  // namespace

// --- arguments

Parameters::Parameters(size_t bytes) : size_(bytes)
{
    bytes_.reset(static_cast<uint8_t *>(operator new(bytes + 64, kAlign)), Free());
    memset(bytes_.get(), 0, bytes + 64);
}

void Parameters::Free::operator()(uint8_t *p) const { operator delete(p, kAlign); }

namespace {

// CU_LAUNCH_PARAM_BUFFER_POINTER, CU_LAUNCH_PARAM_BUFFER_SIZE: one block, laid out as the kernel
// has it.
CUresult read_buffer(const softgpu::Kernel &kernel, void *const *extra, Parameters &p)
{
    const void *buffer = nullptr;
    size_t bytes = 0;
    for (; *extra != CU_LAUNCH_PARAM_END; extra += 2) {
        if (extra[0] == CU_LAUNCH_PARAM_BUFFER_POINTER)
            buffer = extra[1];
        else if (extra[0] == CU_LAUNCH_PARAM_BUFFER_SIZE)
            bytes = *static_cast<const size_t *>(extra[1]);
        else
            return CUDA_ERROR_INVALID_VALUE;
    }
    if (kernel.parameters.empty()) return CUDA_SUCCESS;
    // The end of the last parameter may be missing, and is zero then.
    const Parameter &last = kernel.parameters.back();
    if (!buffer || bytes <= last.offset) return CUDA_ERROR_INVALID_VALUE;
    memcpy(p.data(), buffer, std::min(bytes, last.offset + last.size));
    return CUDA_SUCCESS;
}

}  // namespace

CUresult read_arguments(const softgpu::Kernel &kernel, void *const *arguments, void *const *extra,
                        Parameters &p)
{
    p = Parameters(kernel.parameter_bytes);
    if (extra) return arguments ? CUDA_ERROR_INVALID_VALUE : read_buffer(kernel, extra, p);
    if (kernel.parameters.empty()) return CUDA_SUCCESS;
    if (!arguments) return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < kernel.parameters.size(); i++) {
        const Parameter &x = kernel.parameters[i];
        if (!arguments[i]) return CUDA_ERROR_INVALID_VALUE;
        memcpy(p.data() + x.offset, arguments[i], x.size);
    }
    return CUDA_SUCCESS;
}

// --- limits

unsigned resident_blocks(const Function &f, unsigned threads, size_t dynamic_shared)
{
    if (!threads || threads > kMaxThreadsPerBlock) return 0;
    const Multiprocessor &m = multiprocessor();
    const unsigned warps = (threads + kWarp - 1) / kWarp;
    unsigned blocks = std::min(m.blocks, m.threads / (warps * kWarp));
    const unsigned registers = std::max(f.kernel.registers, 1u) * warps * kWarp;
    blocks = std::min(blocks, kRegistersPerMultiprocessor / std::max(registers, 1u));
    const size_t shared = f.kernel.static_shared + dynamic_shared + kReservedShared;
    return std::min<size_t>(blocks, m.shared / shared);
}

namespace {

CUresult check_shape(const KernelLaunch &l)
{
    const Function &f = *l.function;
    const Dim3 &g = l.grid, &b = l.block;
    if (!g.x || !g.y || !g.z || g.x > kMaxGridX || g.y > kMaxGridYZ || g.z > kMaxGridYZ)
        return CUDA_ERROR_INVALID_VALUE;
    if (!b.x || !b.y || !b.z || b.x > kMaxBlockX || b.y > kMaxBlockY || b.z > kMaxBlockZ ||
        b.count() > kMaxThreadsPerBlock)
        return CUDA_ERROR_INVALID_VALUE;
    int most = 0;
    f.attribute(CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, most);
    const Dim3 &required = f.kernel.required_threads;
    if (static_cast<int>(b.count()) > most ||
        (required.x && (b.x != required.x || b.y != required.y || b.z != required.z)))
        return CUDA_ERROR_INVALID_VALUE;
    if (l.dynamic_shared > f.dynamic_shared_limit()) return CUDA_ERROR_INVALID_VALUE;
    if (f.kernel.cluster.count() > 1) {
        complain("kernel %s wants clusters of %llu blocks: there are clusters of one",
                 f.kernel.name.c_str(), static_cast<unsigned long long>(f.kernel.cluster.count()));
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    if (l.cooperative && g.count() > uint64_t{resident_blocks(f, static_cast<unsigned>(b.count()),
                                                              l.dynamic_shared)} *
                                         cores())
        return CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE;
    return CUDA_SUCCESS;
}

}  // namespace

CUresult prepare(KernelLaunch &l)
{
    if (CUresult rc = check_shape(l)) return rc;
    return l.function->code(l.code);
}

void perform(Context &context, const KernelLaunch &l)
{
    const softgpu::Kernel &kernel = l.function->kernel;
    Launch run_it;
    run_it.grid = l.grid;
    run_it.block = l.block;
    run_it.shared_bytes = kernel.static_shared + l.dynamic_shared;
    run_it.dynamic_shared = l.dynamic_shared;
    run_it.params = l.parameters.data();
    run_it.cooperative = l.cooperative;
    run_it.heap = &context.heap();
    run_it.print = print_from_device;
    const std::optional<Fault> fault = run(*l.code, run_it);
    if (!fault) return;
    complain("kernel %s: %s", kernel.name.c_str(), fault->text.c_str());
    context.fail(to_result(fault->kind));
}

}  // namespace rgpu::softgpu::driver
