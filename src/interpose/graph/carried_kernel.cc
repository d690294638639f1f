// SPDX-License-Identifier: Apache-2.0
// Kernel nodes' parameters.
#include "interpose/code/arguments.h"
#include "interpose/graph/node_memory.h"
#include "interpose/span/relay.h"
#include "interpose/state/process.h"
#include "interpose/stub/carried.h"
#include "wire/bodies.h"

namespace rgpu::interpose {

namespace {

// What the three versions of the struct have; the first knows neither `kern` nor `ctx`.
struct Target {
    CUfunction func = nullptr;
    CUkernel kern = nullptr;
    CUcontext ctx = nullptr;
};
Target target_of(const CUDA_KERNEL_NODE_PARAMS_v1 &p) { return {p.func, nullptr, nullptr}; }
template <class P> Target target_of(const P &p) { return {p.func, p.kern, p.ctx}; }

void set_target(CUDA_KERNEL_NODE_PARAMS_v1 &p, const Target &t)
{
    p.func = t.func ? t.func : reinterpret_cast<CUfunction>(t.kern);
}
template <class P> void set_target(P &p, const Target &t)
{
    p.func = t.func, p.kern = t.kern, p.ctx = t.ctx;
}

const FunctionInfo *info_of(const Target &t)
{
    return function_info(t.func ? t.func : reinterpret_cast<CUfunction>(t.kern));
}

template <class P> CUresult encode_kernel(const P &p, std::vector<uint8_t> &out)
{
    const Target t = target_of(p);
    auto function = Handles::get().id(t.func);
    auto kernel = Handles::get().id(t.kern);
    auto context = Handles::get().id(t.ctx);
    const FunctionInfo *info = info_of(t);
    if (!function || !kernel || !info) return CUDA_ERROR_INVALID_HANDLE;
    if (!context) return CUDA_ERROR_INVALID_CONTEXT;
    if (!is_here(*function) || !is_here(*context)) return relay::not_in_graph();
    Arguments arguments;
    if (CUresult r = arguments.take(*info, p.kernelParams, p.extra)) return r;
    wire::Writer w(out);
    w.value(wire::KernelNodeHead{*function, *kernel, *context, wire::LaunchGrid::of(p)});
    arguments.write(w);
    return CUDA_SUCCESS;
}

// The bytes of a parameter block, and before them a pointer to each parameter, as kernelParams
// wants it.
std::vector<uint8_t> with_pointers(const FunctionInfo &info, const uint8_t *block, size_t bytes)
{
    const size_t front = info.parameters.size() * sizeof(void *);
    std::vector<uint8_t> all(front + bytes);
    if (bytes) memcpy(all.data() + front, block, bytes);
    return all;
}

template <class P> void decode_kernel(wire::Reader &r, P &p, HandleId self)
{
    const auto h = r.value<wire::KernelNodeHead>();
    const size_t bytes = r.value<uint32_t>();
    const uint8_t *block = r.bytes(bytes);
    p = {};
    Handles &handles = Handles::get();
    const HandleId here = current_context();
    Target t{handles.named<CUfunction>(h.function, here), handles.named<CUkernel>(h.kernel, here),
             handles.named<CUcontext>(h.context, here)};
    // A CUkernel that was used as a CUfunction has a kernel's number.
    if (!t.func && h.function)
        t.func = reinterpret_cast<CUfunction>(handles.named<CUkernel>(h.function, here));
    set_target(p, t);
    h.shape.put_into(p);
    const FunctionInfo *info = info_of(t);
    if (!info || bytes < info->parameter_bytes || !r.ok()) return;
    uint8_t *kept = keep(self, with_pointers(*info, block, bytes));
    auto **pointers = reinterpret_cast<void **>(kept);
    uint8_t *values = kept + info->parameters.size() * sizeof(void *);
    for (size_t i = 0; i < info->parameters.size(); i++)
        pointers[i] = values + info->parameters[i].offset;
    p.kernelParams = pointers;
}

}  // namespace

#define KERNEL(T) \
    CUresult Carried<T>::encode(const T &p, std::vector<uint8_t> &out) \
    { \
        return encode_kernel(p, out); \
    } \
    void Carried<T>::decode(wire::Reader &r, T &p, HandleId self) { decode_kernel(r, p, self); }
KERNEL(CUDA_KERNEL_NODE_PARAMS_v1)
KERNEL(CUDA_KERNEL_NODE_PARAMS_v2)
KERNEL(CUDA_KERNEL_NODE_PARAMS_v3)
#undef KERNEL

}  // namespace rgpu::interpose
