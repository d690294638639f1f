// SPDX-License-Identifier: Apache-2.0
// Kernel nodes' parameters.
#include "wire/bodies.h"
#include "worker/calls/carried.h"
#include "worker/driver/driver.h"
#include "worker/session/session.h"

namespace rgpu::worker {

namespace {

constexpr size_t kMaxParameterBytes = 64 << 10;

struct Target {
    CUfunction func = nullptr;
    CUkernel kern = nullptr;
    CUcontext ctx = nullptr;
};
void set_target(CUDA_KERNEL_NODE_PARAMS_v1 &p, const Target &t) { p.func = t.func; }
template <class P> void set_target(P &p, const Target &t)
{
    p.func = t.func, p.kern = t.kern, p.ctx = t.ctx;
}
Target target_of(const CUDA_KERNEL_NODE_PARAMS_v1 &p) { return {p.func, nullptr, nullptr}; }
template <class P> Target target_of(const P &p) { return {p.func, p.kern, p.ctx}; }

template <class P> CUresult decode_kernel(wire::Reader &r, Session &s, P &p, CarriedMemory &memory)
{
    const auto h = r.value<wire::KernelNodeHead>();
    const size_t bytes = r.value<uint32_t>();
    const uint8_t *block = r.bytes(bytes);
    if (!r.ok() || bytes > kMaxParameterBytes) return CUDA_ERROR_INVALID_VALUE;
    Target t;
    if (CUresult e = s.objects.get(h.function, t.func)) return e;
    if (CUresult e = s.objects.get(h.kernel, t.kern)) return e;
    if (CUresult e = s.objects.get(h.context, t.ctx)) return e;
    if (!t.func && !t.kern) return CUDA_ERROR_INVALID_HANDLE;
    set_target(p, t);
    h.shape.put_into(p);
    if (!bytes) return CUDA_SUCCESS;
    uint8_t *values = memory.take(bytes);
    memcpy(values, block, bytes);
    auto *size = reinterpret_cast<size_t *>(memory.take(sizeof bytes));
    *size = bytes;
    p.extra = reinterpret_cast<void **>(memory.take(5 * sizeof(void *)));
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, values, CU_LAUNCH_PARAM_BUFFER_SIZE, size,
                     CU_LAUNCH_PARAM_END};
    memcpy(p.extra, extra, sizeof extra);
    return CUDA_SUCCESS;
}

// The block of a node's parameters, from whichever form the driver has them in.
std::vector<uint8_t> block_of(const Target &t, void **params, void **extra)
{
    std::vector<uint8_t> block;
    if (params) {
        size_t offset = 0, bytes = 0;
        auto info = [&](size_t i) {
            return t.func ? DRIVER(cuFuncGetParamInfo)(t.func, i, &offset, &bytes)
                          : DRIVER(cuKernelGetParamInfo)(t.kern, i, &offset, &bytes);
        };
        for (size_t i = 0; info(i) == CUDA_SUCCESS; i++) {
            if (block.size() < offset + bytes) block.resize(offset + bytes);
            memcpy(block.data() + offset, params[i], bytes);
        }
    } else if (extra) {
        const uint8_t *data = nullptr;
        size_t bytes = 0;
        for (; *extra != CU_LAUNCH_PARAM_END; extra += 2)
            if (extra[0] == CU_LAUNCH_PARAM_BUFFER_POINTER)
                data = static_cast<const uint8_t *>(extra[1]);
            else if (extra[0] == CU_LAUNCH_PARAM_BUFFER_SIZE)
                bytes = *static_cast<size_t *>(extra[1]);
        if (data) block.assign(data, data + bytes);
    }
    return block;
}

template <class P> void encode_kernel(wire::Writer &w, Session &s, const P &p)
{
    const Target t = target_of(p);
    Objects &o = s.objects;
    // A client that launched a kernel as a function knows it by the kernel's number.
    HandleId function = o.known(t.func) ? o.number(t.func)
                        : o.known(reinterpret_cast<CUkernel>(t.func))
                            ? o.number(reinterpret_cast<CUkernel>(t.func))
                            : o.number(t.func);
    w.value(
        wire::KernelNodeHead{function, o.number(t.kern), o.number(t.ctx), wire::LaunchGrid::of(p)});
    const std::vector<uint8_t> block = block_of(t, p.kernelParams, p.extra);
    w.value(static_cast<uint32_t>(block.size()));
    w.bytes(block.data(), block.size());
}

}  // namespace

#define KERNEL(T) \
    CUresult Carried<T>::decode(wire::Reader &r, Session &s, T &p, CarriedMemory &m) \
    { \
        return decode_kernel(r, s, p, m); \
    } \
    void Carried<T>::encode(wire::Writer &w, Session &s, const T &p) { encode_kernel(w, s, p); }
KERNEL(CUDA_KERNEL_NODE_PARAMS_v1)
KERNEL(CUDA_KERNEL_NODE_PARAMS_v2)
KERNEL(CUDA_KERNEL_NODE_PARAMS_v3)
#undef KERNEL

}  // namespace rgpu::worker
