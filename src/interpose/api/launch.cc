// SPDX-License-Identifier: Apache-2.0
// Kernel launches, with the parameters as one block of bytes; posted when the driver is known to
// take them (known_launches.h).
#include "interpose/code/arguments.h"
#include "interpose/code/known_launches.h"
#include "interpose/mirror/mirror.h"
#include "interpose/state/idle.h"
#include "interpose/state/ranges.h"
#include "interpose/stub/by_hand.h"
#include "interpose/stub/stub.h"
#include "wire/bodies.h"
#include "wire/launch_event.h"

namespace rgpu::interpose {

namespace {

// What a launch can be refused for here and now, so that the program is told at once as by a
// driver.
CUresult check_shape(const CUlaunchConfig &c)
{
    const unsigned dims[] = {c.gridDimX,  c.gridDimY,  c.gridDimZ,
                             c.blockDimX, c.blockDimY, c.blockDimZ};
    static constexpr CUdevice_attribute limits[] = {
        CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X,  CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y,
        CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z,  CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X,
        CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z};
    const wire::DeviceSnapshot *d = device(Handles::get().at(current_context())->device);
    auto limit = [&](CUdevice_attribute a) { return static_cast<uint64_t>(d->attributes[a]); };
    for (int i = 0; i < 6; i++)
        if (dims[i] == 0 || (d && dims[i] > limit(limits[i]))) return CUDA_ERROR_INVALID_VALUE;
    // What holds for every function; a function's own limit may be lower, and is the driver's to
    // check.
    if (d && c.sharedMemBytes > limit(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN))
        return CUDA_ERROR_INVALID_VALUE;
    uint64_t threads = uint64_t{c.blockDimX} * c.blockDimY * c.blockDimZ;
    return d && threads > limit(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK)
               ? CUDA_ERROR_INVALID_VALUE
               : CUDA_SUCCESS;
}

// Attributes whose values hold nothing but numbers, which can be sent as they are.
bool can_send(CUlaunchAttributeID id)
{
    switch (id) {
    case CU_LAUNCH_ATTRIBUTE_IGNORE:
    case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
    case CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY:
    case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
    case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
    case CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
    case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION:
    case CU_LAUNCH_ATTRIBUTE_PRIORITY:
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
#if CUDA_VERSION >= 12060
    case CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
#endif
#if CUDA_VERSION >= 12080
    case CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION:
#endif
#if CUDA_VERSION >= 13000
    case CU_LAUNCH_ATTRIBUTE_NVLINK_UTIL_CENTRIC_SCHEDULING:
#endif
        return true;
    default: return false;
    }
}

// A launch's attributes as they are sent: events as their numbers.
CUresult to_send(const CUlaunchConfig &c, std::vector<CUlaunchAttribute> &sent)
{
    if (c.numAttrs && !c.attrs) return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < c.numAttrs; i++) {
        CUlaunchAttribute &a = sent.emplace_back(c.attrs[i]);
        CUevent *event = wire::event_of(a);
        if (!event && !can_send(a.id)) return CUDA_ERROR_NOT_SUPPORTED;
        if (!event) continue;
        HandleId number = 0;
        if (CUresult r = detail::id_in(*event, number); r || !number)
            return CUDA_ERROR_INVALID_HANDLE;
        *event = reinterpret_cast<CUevent>(uintptr_t{number});
        idle::events_elsewhere();  // the launch records it
    }
    return CUDA_SUCCESS;
}

// Whether the driver is known to take a launch.
class Sure {
public:
    Sure(const CUlaunchConfig &c, const FunctionInfo &info, HandleId function, HandleId stream,
         bool cooperative)
        : info_(info), device_(current_device()), threads_(c.blockDimX * c.blockDimY * c.blockDimZ),
          shared_(c.sharedMemBytes)
    {
        sure_ = info.limits.covers(device_, threads_, shared_) && at_home(stream);
        shape_.cooperative = cooperative;
        for (unsigned i = 0; i < c.numAttrs; i++) {
            const CUlaunchAttribute &a = c.attrs[i];
            if (a.id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE && a.value.cooperative)
                shape_.cooperative = true;
            if (a.id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION)
                shape_.cluster = {a.value.clusterDim.x, a.value.clusterDim.y, a.value.clusterDim.z};
        }
        if (!special()) return;
        shape_.function = function, shape_.stamp = Handles::get().at(function)->stamp,
        shape_.device = device_;
        shape_.grid = {c.gridDimX, c.gridDimY, c.gridDimZ},
        shape_.block = {c.blockDimX, c.blockDimY, c.blockDimZ};
        shape_.dynamic_shared = c.sharedMemBytes;
        sure_ = sure_ && was_taken(shape_);
    }
    explicit operator bool() const { return sure_; }
    // It has taken this one.
    void learn() const
    {
        info_.limits.add(device_, {threads_, shared_});
        if (special()) note_taken(shape_);
    }

private:
    bool special() const { return shape_.cooperative || shape_.cluster[0]; }
    // Stream and module are the current context's own.
    bool at_home(HandleId stream) const
    {
        const HandleId here = current_context();
        const Slot *owner = Handles::get().at(info_.owner);
        return (stream < calls::kFirstHandle || Handles::get().at(stream)->parent == here) &&
               (owner->kind.load() != HandleKind::module || owner->parent == here);
    }

    const FunctionInfo &info_;
    CUdevice device_;
    uint32_t threads_, shared_;
    LaunchShape shape_;
    bool sure_ = false;
};

CUresult launch(const CUlaunchConfig &c, CUfunction f, void **params, void **extra,
                bool cooperative)
{
    ServerSession *s = session();
    if (!s) return not_ready();
    if (CUresult r = context_state()) return r;
    const FunctionInfo *info = function_info(f);
    if (!info) return CUDA_ERROR_INVALID_HANDLE;
    if (spanning())
        if (CUresult r = may_run_here(info->owner)) return r;
    if (CUresult r = check_shape(c)) return r;
    std::vector<CUlaunchAttribute> attributes;
    if (CUresult r = to_send(c, attributes)) return r;
    HandleId stream = 0;
    if (CUresult r = detail::id_in(c.hStream, stream)) return r;
    if (CUresult r = may_give_work(stream)) return r;
    Arguments arguments;
    if (CUresult r = arguments.take(*info, params, extra)) return r;
    mirror::Work work;
    if (CUresult r = work.begin(stream)) return r;
    const HandleId number = *Handles::get().id(f);
    const auto body = [&](wire::Writer &w) {
        w.value(wire::LaunchHead{number, wire::LaunchGrid::of(c), stream, cooperative, c.numAttrs});
        w.bytes(attributes.data(), c.numAttrs * sizeof(CUlaunchAttribute));
        arguments.write(w);
    };
    const Sure sure(c, *info, number, stream, cooperative);
    if (sure) return s->post(CallId::cuLaunchKernel, current_context(), body);
    Reply reply;
    const CUresult r = s->ask(CallId::cuLaunchKernel, current_context(), body, reply);
    if (!r) sure.learn();
    return r;
}

CUlaunchConfig config(unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                      unsigned shared, CUstream stream)
{
    CUlaunchConfig c{};
    c.gridDimX = gx, c.gridDimY = gy, c.gridDimZ = gz;
    c.blockDimX = bx, c.blockDimY = by, c.blockDimZ = bz;
    c.sharedMemBytes = shared;
    c.hStream = stream;
    return c;
}

}  // namespace

// A launch that is only asked about (occupancy of clusters).
CUresult Carried<CUlaunchConfig>::encode(const CUlaunchConfig &c, std::vector<uint8_t> &out)
{
    HandleId stream = 0;
    if (CUresult r = detail::id_in(c.hStream, stream)) return r;
    if (c.numAttrs && !c.attrs) return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < c.numAttrs; i++)
        if (!can_send(c.attrs[i].id)) return CUDA_ERROR_NOT_SUPPORTED;
    wire::Writer w(out);
    w.value(wire::AskedLaunchHead{wire::LaunchGrid::of(c), stream});
    w.value(uint64_t{c.numAttrs});
    w.bytes(c.attrs, c.numAttrs * sizeof *c.attrs);
    return CUDA_SUCCESS;
}

namespace own {

CUresult cuLaunchKernel(CUfunction f, unsigned int gx, unsigned int gy, unsigned int gz,
                        unsigned int bx, unsigned int by, unsigned int bz, unsigned int shared,
                        CUstream stream, void **params, void **extra)
{
    return launch(config(gx, gy, gz, bx, by, bz, shared, stream), f, params, extra, false);
}

CUresult cuLaunchCooperativeKernel(CUfunction f, unsigned int gx, unsigned int gy, unsigned int gz,
                                   unsigned int bx, unsigned int by, unsigned int bz,
                                   unsigned int shared, CUstream stream, void **params)
{
    return launch(config(gx, gy, gz, bx, by, bz, shared, stream), f, params, nullptr, true);
}

CUresult cuLaunchKernelEx(const CUlaunchConfig *c, CUfunction f, void **params, void **extra)
{
    return c ? launch(*c, f, params, extra, false) : CUDA_ERROR_INVALID_VALUE;
}
CUresult cuLaunchKernelEx_ptsz(const CUlaunchConfig *c, CUfunction f, void **params, void **extra)
{
    if (!c) return CUDA_ERROR_INVALID_VALUE;
    CUlaunchConfig own = *c;
    if (!own.hStream) own.hStream = CU_STREAM_PER_THREAD;
    return launch(own, f, params, extra, false);
}

}  // namespace own

}  // namespace rgpu::interpose
