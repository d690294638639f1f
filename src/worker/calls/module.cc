// SPDX-License-Identifier: Apache-2.0
// Modules, libraries and the functions in them (wire/module_bodies.h).
#include <memory>

#include "wire/launch_limits.h"
#include "wire/module_bodies.h"
#include "worker/calls/image.h"
#include "worker/calls/jit.h"
#include "worker/calls/own.h"
#include "worker/driver/driver.h"

namespace rgpu::worker::own {

namespace {

constexpr uint32_t kWrapperMagic = 0x466243B1;

// What nvcc's host code passes for a fat binary; version 2 names several.
struct Wrapper {
    uint32_t magic = kWrapperMagic, version = 1;
    const void *data = nullptr;
    const void *const *objects = nullptr;
};

// A load as it came: the image rebuilt in this process's memory. A driver keeps a copy of what it
// reads later.
struct Load {
    wire::LoadHead head;
    std::vector<std::vector<uint8_t>> parts;  // each ends with a NUL that is not part of it
    std::vector<const void *> pointers;
    Jit jit;
    Wrapper wrapper;
    Image bytes;

    Result<void> read(Session &s, const Call &call);
    const void *image();
};

Result<void> Load::read(Session &s, const Call &call)
{
    auto body = s.input.long_body(call.header.bytes);
    if (!body) return std::move(body).error();
    wire::Reader r(body->data(), body->size());
    auto load = wire::LoadHead::read(r);
    if (!load) return std::move(load).error();
    head = std::move(*load);
    if (auto read = jit.read(r); !read) return read;
    if (auto read = bytes.read(s, r, std::move(*body)); !read || bytes.missing) return read;
    wire::Reader image(bytes.view.data(), bytes.view.size());
    for (uint64_t size : head.parts) {
        const uint8_t *p = image.bytes(size);
        if (!p) break;
        parts.emplace_back(p, p + size).push_back(0);
    }
    return image.at_end() ? Result<void>()
                          : error(ErrorKind::invalid, "its parts do not fit its image");
}

const void *Load::image()
{
    jit.add_logs();
    for (const auto &part : parts) pointers.push_back(part.data());
    if (head.wrapping == wire::ImageWrapping::none) return pointers[0];
    pointers.push_back(nullptr);
    wrapper.data = pointers[0];
    const bool linked = head.wrapping == wire::ImageWrapping::linked;
    if (linked || parts.size() > 1) {
        wrapper.version = 2;
        wrapper.objects = pointers.data() + linked;
    }
    return &wrapper;
}

// What is told of a function or kernel. cuFuncGetParamInfo answers INVALID_VALUE behind the last
// parameter; another error is the function's own, as a driver may load it only now.
template <class Get> CUresult describe(wire::FunctionText &d, const char *name, Get get)
{
    d = {name ? name : "", {}};
    size_t offset = 0, bytes = 0;
    CUresult r;
    for (size_t i = 0; !(r = get(i, &offset, &bytes)); i++)
        d.parameters.push_back({static_cast<uint32_t>(offset), static_cast<uint32_t>(bytes)});
    return r == CUDA_ERROR_INVALID_VALUE ? CUDA_SUCCESS : r;
}

CUresult describe(wire::FunctionText &d, CUfunction f)
{
    const char *name = nullptr;
    if (auto get = DRIVER(cuFuncGetName)) get(&name, f);
    return describe(d, name, [&](size_t i, size_t *offset, size_t *bytes) {
        return DRIVER(cuFuncGetParamInfo)(f, i, offset, bytes);
    });
}

CUresult describe(wire::FunctionText &d, CUkernel k)
{
    const char *name = nullptr;
    if (auto get = DRIVER(cuKernelGetName)) get(&name, k);
    return describe(d, name, [&](size_t i, size_t *offset, size_t *bytes) {
        return DRIVER(cuKernelGetParamInfo)(k, i, offset, bytes);
    });
}

// What the driver takes at launches of it, as far as it says so. A kernel with clusters of its own
// is one that a device may not run at all: its launches are asked for.
template <class Get> wire::LaunchLimits limits(Get get)
{
#if CUDA_VERSION >= 11080
    for (auto side :
         {CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT,
          CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH})
        if (int blocks = 0; !get(&blocks, side) && blocks > 1) return {};
#endif
    int threads = 0, shared = 0;
    if (get(&threads, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK) ||
        get(&shared, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES))
        return {};
    return {static_cast<uint32_t>(std::max(threads, 0)),
            static_cast<uint32_t>(std::max(shared, 0))};
}

wire::LaunchLimits limits(CUfunction f)
{
    return limits([f](int *value, CUfunction_attribute a) {
        return DRIVER(cuFuncGetAttribute)(value, a, f);
    });
}

wire::LaunchLimits limits(CUkernel k)
{
    CUdevice device = 0;
    auto get = DRIVER(cuKernelGetAttribute);
    if (!get || DRIVER(cuCtxGetDevice)(&device)) return {};
    return limits([&](int *value, CUfunction_attribute a) { return get(value, a, k, device); });
}

// All that is in a module or library, if it is not too much: then the client looks them up without
// asking. Writes nothing where the driver cannot say (CUDA 12.4).
constexpr unsigned kMostListed = 64;

template <class Found, class Owner, class Count, class List>
void list_found(wire::Writer &w, Owner owner, Count count_of, List list)
{
    unsigned count = 0;
    if (!DRIVER(cuFuncGetParamInfo) || !count_of || !list) return;
    if (count_of(&count, owner) || !count || count > kMostListed) return;
    std::vector<Found> found(count);
    if (list(found.data(), count, owner)) return;
    std::vector<wire::FunctionText> texts(count);
    for (unsigned i = 0; i < count; i++)
        if (describe(texts[i], found[i])) return;
    w.value(count);
    for (const wire::FunctionText &text : texts) text.write(w);
    for (unsigned i = 0; i < count; i++) w.value(limits(found[i]));
}
void list_found(wire::Writer &w, CUmodule m)
{
    list_found<CUfunction>(w, m, DRIVER(cuModuleGetFunctionCount),
                           DRIVER(cuModuleEnumerateFunctions));
}
void list_found(wire::Writer &w, CUlibrary l)
{
    list_found<CUkernel>(w, l, DRIVER(cuLibraryGetKernelCount), DRIVER(cuLibraryEnumerateKernels));
}

// `load_image` calls the driver.
template <class Made, class LoadImage>
Result<void> serve_load(Session &s, Call &call, LoadImage load_image)
{
    auto load = std::make_shared<Load>();
    if (auto r = load->read(s, call); !r) return r;
    const Input::Away away(s.input, s.callbacks.any());
    s.when_quiet(call, [&s, load, load_image](const Call &call) {
        Made made{};
        CUresult result = load->bytes.missing ? CUDA_ERROR_NOT_FOUND
                                              : load_image(&made, *load, load->image());
        if (!result && !s.objects.set(load->head.made, made)) result = CUDA_ERROR_INVALID_VALUE;
        std::vector<uint8_t> answer;
        wire::Writer w(answer);
        w.value(load->bytes.answer(s, result));
        load->jit.write_logs(w);
        if (!result) list_found(w, made);
        s.finish(call, result, answer);
        if (!result) load->bytes.keep(s);
    });
    return {};
}

// A function or kernel is loaded when it is found: else a driver that loads them when they are
// first used would do so at the launch, for which nobody waits.
void load_now(Session &s, CUfunction f)
{
    if (auto load = DRIVER(cuFuncLoad); load && !s.callbacks.any_to_run()) load(f);
}
void load_now(Session &s, CUkernel k)
{
    CUfunction f = nullptr;
    if (auto get = DRIVER(cuKernelGetFunction); get && s.context() && !get(&f, k)) load_now(s, f);
}

// Without a current context NVIDIA's driver tells the parameters of some kernels only.
class SomeContext {
public:
    SomeContext()
    {
        CUcontext context = nullptr;
        if (DRIVER(cuCtxGetCurrent)(&context) || context ||
            DRIVER(cuDevicePrimaryCtxRetain)(&context, 0))
            return;
        retained_ = true;
        DRIVER(cuCtxSetCurrent)(context);
    }
    ~SomeContext()
    {
        if (!retained_) return;
        DRIVER(cuCtxSetCurrent)(nullptr);
        DRIVER(cuDevicePrimaryCtxRelease)(0);
    }

private:
    bool retained_ = false;
};

// A look-up of `Found` in `Owner`; `find` asks the driver.
template <class Found, class Owner, class Find>
Result<void> serve_find(Session &s, Call &call, Find find)
{
    const auto asked = wire::FunctionLookUp::read(call.body);
    if (!call.body.at_end()) return misfit();
    s.when_quiet(call, [&s, asked, find](const Call &call) {
        Owner owner{};
        Found found{};
        // Parameter layouts are needed to carry launches out (CUDA 12.4).
        CUresult r = DRIVER(cuFuncGetParamInfo) ? s.objects.get(asked.owner, owner)
                                                : CUDA_ERROR_NOT_SUPPORTED;
        if (!r) r = find(&found, owner, asked.name.c_str());
        if (!r && !s.objects.set(asked.found, found)) r = CUDA_ERROR_INVALID_VALUE;
        if (!r) load_now(s, found);
        std::vector<uint8_t> answer;
        wire::FunctionText d;
        CUresult unknown = r ? r : describe(d, found);
        if (unknown == CUDA_ERROR_INVALID_CONTEXT && !r && call.wants_reply()) {
            SomeContext context;
            unknown = describe(d, found);
        }
        // Posted, the client knows them already.
        if (!r && unknown && call.wants_reply()) r = unknown, s.objects.end(asked.found);
        if (!unknown) {
            wire::Writer w(answer);
            if (call.wants_reply()) d.write(w), w.value(limits(found));
            s.objects.set_function(asked.found, asked.owner, std::move(d.parameters));
        }
        s.finish(call, r, answer);
    });
    return {};
}

// All that is found in `Owner`, whose number `count_of` asks the driver, and `list` for them.
template <class Found, class Owner, class Count, class List>
Result<void> serve_enumerate(Session &s, Call &call, Count count_of, List list)
{
    const auto asked = call.body.value<wire::FunctionList>();
    if (!call.body.at_end()) return misfit();
    constexpr uint32_t kMaxRoom = 1 << 20;
    Owner owner{};
    CUresult r = DRIVER(cuFuncGetParamInfo) && count_of && list ? s.objects.get(asked.owner, owner)
                                                                : CUDA_ERROR_NOT_SUPPORTED;
    if (!r && !owner) r = CUDA_ERROR_INVALID_HANDLE;
    unsigned count = 0;
    if (!r) r = count_of(&count, owner);
    // Room for what there is, not for what is asked.
    std::vector<Found> found(std::min({count, asked.room, kMaxRoom}));
    if (!r && !found.empty()) r = list(found.data(), static_cast<unsigned>(found.size()), owner);
    while (!found.empty() && !found.back())
        found.pop_back();  // there was more room than there are functions
    std::vector<uint8_t> answer;
    wire::Writer w(answer);
    w.value(static_cast<uint32_t>(found.size()));
    for (size_t i = 0; !r && i < found.size(); i++) {
        const HandleId id = s.objects.number(found[i]);
        w.value(id);
        wire::FunctionText d;
        if ((r = describe(d, found[i]))) break;
        d.write(w);
        s.objects.set_function(id, asked.owner, std::move(d.parameters));
    }
    s.finish(call, r, answer);
    return {};
}

}  // namespace

Result<void> cuModuleEnumerateFunctions(Session &s, Call &call)
{
    return serve_enumerate<CUfunction, CUmodule>(s, call, DRIVER(cuModuleGetFunctionCount),
                                                 DRIVER(cuModuleEnumerateFunctions));
}

Result<void> cuLibraryEnumerateKernels(Session &s, Call &call)
{
    return serve_enumerate<CUkernel, CUlibrary>(s, call, DRIVER(cuLibraryGetKernelCount),
                                                DRIVER(cuLibraryEnumerateKernels));
}

Result<void> cuModuleLoadDataEx(Session &s, Call &call)
{
    return serve_load<CUmodule>(s, call, [](CUmodule *module, Load &load, const void *image) {
        return DRIVER(cuModuleLoadDataEx)(module, image, load.jit.count(), load.jit.options.data(),
                                          load.jit.values.data());
    });
}

Result<void> cuLibraryLoadData(Session &s, Call &call)
{
    return serve_load<CUlibrary>(s, call, [](CUlibrary *library, Load &load, const void *image) {
        auto function = DRIVER(cuLibraryLoadData);
        if (!function) return CUDA_ERROR_NOT_SUPPORTED;
        return function(library, image, load.jit.options.data(), load.jit.values.data(),
                        load.jit.count(), nullptr, nullptr, 0);
    });
}

Result<void> cuModuleGetFunction(Session &s, Call &call)
{
    return serve_find<CUfunction, CUmodule>(s, call, DRIVER(cuModuleGetFunction));
}

Result<void> cuLibraryGetKernel(Session &s, Call &call)
{
    return serve_find<CUkernel, CUlibrary>(s, call, DRIVER(cuLibraryGetKernel));
}

Result<void> cuKernelGetFunction(Session &s, Call &call)
{
    return serve_find<CUfunction, CUkernel>(s, call, [](CUfunction *f, CUkernel k, const char *) {
        return DRIVER(cuKernelGetFunction)(f, k);
    });
}

}  // namespace rgpu::worker::own
