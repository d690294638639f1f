// SPDX-License-Identifier: Apache-2.0
// Modules, libraries, and the functions found in them.
//
// Bodies: wire/module_bodies.h. The answer to a load begins with an ImageAnswer and what the
// compiler said (code/jit.h), and lists the functions where the server can. The look-up of a
// function that was listed is posted.
#include "interpose/base/log.h"
#include "interpose/code/function_info.h"
#include "interpose/code/image.h"
#include "interpose/code/jit.h"
#include "interpose/link/image_call.h"
#include "interpose/state/client.h"
#include "interpose/state/family.h"
#include "interpose/state/ranges.h"
#include "interpose/stream/callback.h"
#include "interpose/stub/by_hand.h"
#include "interpose/stub/stub.h"
#include "wire/module_bodies.h"

#include <map>
#include <unordered_map>

namespace rgpu::interpose {

namespace {

// CUDA allows 32,764 bytes of parameters (CUDA C++ Programming Guide, "__global__").
constexpr uint64_t kMostParameterBytes = 64 << 10;

// What an answer says of a function: its name and parameters. Nothing where it says what no
// function has: launches copy as it says.
std::optional<FunctionInfo> read_info(wire::Reader &answer, HandleId owner)
{
    auto text = wire::FunctionText::read(answer);
    FunctionInfo info;
    info.name = std::move(text.name);
    info.owner = owner;
    info.parameters = std::move(text.parameters);
    for (const wire::FunctionParameter &p : info.parameters) {
        const uint64_t end = uint64_t{p.offset} + p.bytes;
        if (end > kMostParameterBytes) return std::nullopt;
        info.parameter_bytes = std::max(info.parameter_bytes, static_cast<uint32_t>(end));
    }
    if (!answer.ok()) return std::nullopt;
    return info;
}

// The limits of functions stand behind all else in an answer; a server may leave them out.
void read_limits(wire::Reader &answer, const FunctionInfo &info)
{
    if (answer.left()) info.limits.add(current_device(), answer.value<wire::LaunchLimits>());
}

// What is in each module and library, where the server has said so when it was loaded.
class Listed {
public:
    void set(HandleId owner, wire::Reader answer)
    {
        List list{stamp(owner), {}, {}};
        for (auto n = answer.left() ? answer.value<uint32_t>() : 0; n; n--) {
            auto info = read_info(answer, owner);
            if (!info) return;
            list.functions.push_back(std::move(*info));
        }
        for (const FunctionInfo &info : list.functions) read_limits(answer, info);
        if (!answer.ok()) return;
        std::lock_guard lock(mutex_);
        lists_[owner] = std::move(list);
    }
    // Empty: the server knows.
    std::optional<FunctionInfo> find(HandleId owner, std::string_view name)
    {
        std::lock_guard lock(mutex_);
        for (const FunctionInfo &info : of(owner).functions)
            if (info.name == name) return info;
        return std::nullopt;
    }
    // The number of what was found before: a driver gives one handle for one function. A kernel has
    // a function in each context.
    HandleId found(HandleId owner, const std::string &name)
    {
        std::lock_guard lock(mutex_);
        const auto &all = of(owner).found;
        const auto it = all.find({place(owner), name});
        return it == all.end() ? calls::kNoHandle : it->second;
    }
    void set_found(HandleId owner, const std::string &name, HandleId number)
    {
        std::lock_guard lock(mutex_);
        of(owner).found[{place(owner), name}] = number;
    }

private:
    static uint32_t stamp(HandleId owner) { return Handles::get().at(owner)->stamp; }
    // A context's stamp tells it from what it was before a reset, too.
    static uint32_t place(HandleId owner)
    {
        return Handles::get().at(owner)->kind.load() == HandleKind::kernel
                   ? stamp(current_context())
                   : 0;
    }

    struct List {
        uint32_t stamp = 0;
        std::vector<FunctionInfo> functions;
        std::map<std::pair<uint32_t, std::string>, HandleId> found;  // by place and name
    };
    // With the mutex held.
    List &of(HandleId owner)
    {
        List &list = lists_[owner];
        if (list.stamp != stamp(owner))
            list = {stamp(owner), {}, {}};  // the number is another's now
        return list;
    }

    std::mutex mutex_;
    std::unordered_map<HandleId, List> lists_;
};

Listed &listed() { return client_part<Listed>(Part::functions_by_name); }

bool is_everywhere(HandleId id)
{
    return spanning() && Handles::get().at(id)->server == kEverywhere;
}

// What has been done here with a library or kernel, at the other servers: its number means the same
// there. One that cannot, say because its GPUs need other code, refuses what the program then does
// with it there.
template <class F> void elsewhere(HandleId library, F f)
{
    const std::atomic_ref refused(Handles::get().at(library)->flags);
    const unsigned first = here();
    for (unsigned s = 0; s < server_count(); s++) {
        if (s == first || refused >> s & 1) continue;
        const At at(s);
        const CUresult r = f();
        if (!r) continue;
        refused |= 1u << s;
        if (!session()->state())
            say("server %s does not take code that server %s has taken (CUDA error %d): its GPUs "
                "cannot run that",
                session()->server().c_str(), session_at(first)->server().c_str(),
                static_cast<int>(r));
    }
}

// Loads an image on the server with call `id`; `out` gets the module's or library's handle.
template <class T>
CUresult load(calls::SentCall id, T *out, const void *image, const JitOptions &jit)
{
    if (!session()) return not_ready();
    if (!out || !image || jit.invalid) return CUDA_ERROR_INVALID_VALUE;
    auto measured = measure_image(image, session()->takes_linked());
    if (!measured) {
        say("cannot load a module image: %s", measured.error().text.c_str());
        return result_of(measured.error().kind, Doing::loading_image);
    }
    HandleId handle = Handles::get().make(calls::kHandleKind<T>, current_context());
    if (!handle) return CUDA_ERROR_OUT_OF_MEMORY;
    Unless made([&] { Handles::get().end(handle); });
    std::vector<uint8_t> head;
    wire::Writer w(head);
    wire::LoadHead load{handle, measured->wrapping, {}};
    for (auto part : measured->parts) load.parts.push_back(part.size());
    load.write(w);
    jit.write(w);
    Reply reply;
    const auto ask = [&] {
        return ask_with_image(*session(), current_context(), id, head, measured->parts, reply);
    };
    std::string errors;
    CUresult r = ask();
    if (!r) made.keep();
    const size_t logs = jit.take_logs(reply.body, &errors);
    if (r) {
        if (!errors.empty()) say("the server cannot load a module: %s", errors.c_str());
        return r;
    }
    // Without the list each look-up asks the server.
    guard("a module's functions", [&] {
        listed().set(handle, {reply.body.data() + logs, reply.body.size() - logs});
        return CUDA_SUCCESS;
    });
    if (is_everywhere(handle)) elsewhere(handle, ask);
    *out = Handles::get().handle<T>(handle);
    return CUDA_SUCCESS;
}

// All functions of a module or kernels of a library, as many as there is room for.
template <class T, class Owner>
CUresult enumerate(calls::SentCall id, T *out, unsigned room, Owner owner)
{
    if (!session()) return not_ready();
    auto in = Handles::get().id(owner);
    if (!in || !*in) return CUDA_ERROR_INVALID_HANDLE;
    if (room && !out) return CUDA_ERROR_INVALID_VALUE;
    Reply reply;
    CUresult r = session()->ask(
        id, current_context(),
        [&](wire::Writer &w) {
            w.value(wire::FunctionList{*in, room});
        },
        reply);
    if (r) return r;
    wire::Reader answer(reply.body.data(), reply.body.size());
    const auto count = answer.value<uint32_t>();
    for (uint32_t i = 0; i < count && i < room && answer.ok(); i++) {
        auto number = answer.value<HandleId>();
        Slot *slot = Handles::get().adopt(calls::kHandleKind<T>, number, calls::kNoHandle);
        if (slot) belongs(number, *in);
        auto read = read_info(answer, *in);
        if (!read) return CUDA_ERROR_UNKNOWN;
        auto info = std::make_unique<FunctionInfo>(std::move(*read));
        if (slot) listed().set_found(*in, info->name, number);
        void *unknown = nullptr;
        if (slot && slot->data.compare_exchange_strong(unknown, info.get()))
            info.release();  // lives as long as the process, as below
        out[i] = slot ? Handles::get().handle<T>(number) : nullptr;
    }
    return answer.ok() ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN;
}

// Finds a function with call `id` in `owner`; its handle gets what launches must know.
template <class T, class Owner>
CUresult find(calls::SentCall id, T *out, Owner owner, const char *name)
{
    if (!session()) return not_ready();
    if (!out) return CUDA_ERROR_INVALID_VALUE;
    auto in = Handles::get().id(owner);
    if (!in || !*in) return CUDA_ERROR_INVALID_HANDLE;
    if (HandleId before = listed().found(*in, name)) {
        *out = Handles::get().handle<T>(before);
        return CUDA_SUCCESS;
    }
    HandleId handle = Handles::get().make(calls::kHandleKind<T>);
    if (!handle) return CUDA_ERROR_OUT_OF_MEMORY;
    Unless made([&] { Handles::get().end(handle); });
    const auto body = [&](wire::Writer &w) { wire::FunctionLookUp{handle, *in, name}.write(w); };
    std::optional<FunctionInfo> info = listed().find(*in, name);
    Reply reply;
    const bool listed_before = info.has_value();
    // The server's driver may wait for all work while it loads a kernel. Where the program's
    // functions may be part of that work, the server chooses when it does.
    const bool posted = listed_before && !any_function_to_come();
    const auto send = [&] {
        return posted ? session()->post(id, current_context(), body)
                      : session()->ask(id, current_context(), body, reply);
    };
    if (CUresult r = send()) return r;
    made.keep();
    if (!info) {
        wire::Reader answer(reply.body.data(), reply.body.size());
        auto read = read_info(answer, *in);
        if (!read) return CUDA_ERROR_UNKNOWN;
        info.emplace(std::move(*read));
        read_limits(answer, *info);
    }
    if (is_everywhere(handle)) elsewhere(*in, send);
    belongs(handle, *in);
    // Lives as long as the process: launches read it without a lock.
    Handles::get().at(handle)->data.store(new FunctionInfo(std::move(*info)),
                                          std::memory_order_release);
    listed().set_found(*in, name, handle);
    *out = Handles::get().handle<T>(handle);
    return CUDA_SUCCESS;
}

// Numbers that one server gives to kernels mean nothing to the others: each is looked up by its
// name instead.
CUresult enumerate_everywhere(CUkernel *out, unsigned room, CUlibrary library)
{
    if (!session()) return not_ready();
    auto in = Handles::get().id(library);
    if (!in || !*in) return CUDA_ERROR_INVALID_HANDLE;
    if (room && !out) return CUDA_ERROR_INVALID_VALUE;
    Reply reply;
    CUresult r = session()->ask(
        CallId::cuLibraryEnumerateKernels, current_context(),
        [&](wire::Writer &w) {
            w.value(wire::FunctionList{*in, room});
        },
        reply);
    wire::Reader answer(reply.body.data(), reply.body.size());
    const auto count = r ? 0 : answer.value<uint32_t>();
    for (uint32_t i = 0; i < count && i < room && answer.ok() && !r; i++) {
        answer.value<HandleId>();
        const auto info = read_info(answer, *in);
        r = info ? find(CallId::cuLibraryGetKernel, out + i, library, info->name.c_str())
                 : CUDA_ERROR_UNKNOWN;
    }
    return r;
}

CUresult parameter(CUfunction f, size_t index, size_t *offset, size_t *bytes)
{
    if (!session()) return not_ready();
    const FunctionInfo *info = function_info(f);
    if (!info) return CUDA_ERROR_INVALID_HANDLE;
    if (!offset || index >= info->parameters.size()) return CUDA_ERROR_INVALID_VALUE;
    *offset = info->parameters[index].offset;
    if (bytes) *bytes = info->parameters[index].bytes;
    return CUDA_SUCCESS;
}

CUresult function_name(const char **name, CUfunction f)
{
    if (!session()) return not_ready();
    const FunctionInfo *info = function_info(f);
    if (!info) return CUDA_ERROR_INVALID_HANDLE;
    if (!name) return CUDA_ERROR_INVALID_VALUE;
    *name = info->name.c_str();
    return CUDA_SUCCESS;
}

template <class T> CUresult owner_of(T *out, CUfunction f)
{
    if (!session()) return not_ready();
    const FunctionInfo *info = function_info(f);
    if (!info) return CUDA_ERROR_INVALID_HANDLE;
    if (!out) return CUDA_ERROR_INVALID_VALUE;
    *out = Handles::get().handle<T>(info->owner);
    return CUDA_SUCCESS;
}

}  // namespace

namespace own {

CUresult cuModuleLoadDataEx(CUmodule *out, const void *image, unsigned int count,
                            CUjit_option *options, void **values)
{
    return load(CallId::cuModuleLoadDataEx, out, image, {count, options, values});
}
CUresult cuModuleLoadData(CUmodule *out, const void *image)
{
    return own::cuModuleLoadDataEx(out, image, 0, nullptr, nullptr);
}
CUresult cuModuleLoadFatBinary(CUmodule *out, const void *image)
{
    return own::cuModuleLoadData(out, image);
}

CUresult cuModuleLoad(CUmodule *out, const char *path)
{
    if (!session()) return not_ready();
    if (!path) return CUDA_ERROR_INVALID_VALUE;
    auto bytes = read_whole(path);
    return bytes ? own::cuModuleLoadData(out, bytes->c_str()) : CUDA_ERROR_FILE_NOT_FOUND;
}

CUresult cuModuleGetFunction(CUfunction *out, CUmodule module, const char *name)
{
    if (!name) return CUDA_ERROR_INVALID_VALUE;
    return find(CallId::cuModuleGetFunction, out, module, name);
}

CUresult cuModuleGetLoadingMode(CUmoduleLoadingMode *mode)
{
    if (!session()) return not_ready();
    if (!mode) return CUDA_ERROR_INVALID_VALUE;
    *mode = CU_MODULE_LAZY_LOADING;
    return CUDA_SUCCESS;
}

CUresult cuLibraryLoadData(CUlibrary *out, const void *code, CUjit_option *options, void **values,
                           unsigned int count, CUlibraryOption *library_options, void **,
                           unsigned int library_count)
{
    if (library_count && !library_options) return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < library_count; i++)
        if (library_options[i] == CU_LIBRARY_HOST_UNIVERSAL_FUNCTION_AND_DATA_TABLE)
            return CUDA_ERROR_NOT_SUPPORTED;
    return load(CallId::cuLibraryLoadData, out, code, {count, options, values});
}

CUresult cuLibraryLoadFromFile(CUlibrary *out, const char *path, CUjit_option *options,
                               void **values, unsigned int count, CUlibraryOption *library_options,
                               void **library_values, unsigned int library_count)
{
    if (!session()) return not_ready();
    if (!path) return CUDA_ERROR_INVALID_VALUE;
    auto bytes = read_whole(path);
    if (!bytes) return CUDA_ERROR_FILE_NOT_FOUND;
    return own::cuLibraryLoadData(out, bytes->c_str(), options, values, count, library_options,
                                  library_values, library_count);
}

CUresult cuLibraryGetKernel(CUkernel *out, CUlibrary library, const char *name)
{
    if (!name) return CUDA_ERROR_INVALID_VALUE;
    return find(CallId::cuLibraryGetKernel, out, library, name);
}

CUresult cuModuleEnumerateFunctions(CUfunction *out, unsigned int room, CUmodule module)
{
    return enumerate(CallId::cuModuleEnumerateFunctions, out, room, module);
}
CUresult cuLibraryEnumerateKernels(CUkernel *out, unsigned int room, CUlibrary library)
{
    if (spanning()) return enumerate_everywhere(out, room, library);
    return enumerate(CallId::cuLibraryEnumerateKernels, out, room, library);
}

CUresult cuKernelGetFunction(CUfunction *out, CUkernel kernel)
{
    return find(CallId::cuKernelGetFunction, out, kernel, "");
}

CUresult cuKernelGetName(const char **name, CUkernel k)
{
    return function_name(name, reinterpret_cast<CUfunction>(k));
}
CUresult cuFuncGetName(const char **name, CUfunction f) { return function_name(name, f); }
CUresult cuKernelGetParamInfo(CUkernel k, size_t index, size_t *offset, size_t *bytes)
{
    return parameter(reinterpret_cast<CUfunction>(k), index, offset, bytes);
}
CUresult cuFuncGetParamInfo(CUfunction f, size_t index, size_t *offset, size_t *bytes)
{
    return parameter(f, index, offset, bytes);
}
CUresult cuFuncGetModule(CUmodule *out, CUfunction f) { return owner_of(out, f); }
#if CUDA_VERSION >= 12050
CUresult cuKernelGetLibrary(CUlibrary *out, CUkernel k)
{
    return owner_of(out, reinterpret_cast<CUfunction>(k));
}
#endif

// Hints about the cache; they change nothing that can be seen.
CUresult cuFuncSetCacheConfig(CUfunction f, CUfunc_cache)
{
    if (!session()) return not_ready();
    return function_info(f) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}
CUresult cuKernelSetCacheConfig(CUkernel k, CUfunc_cache config, CUdevice)
{
    return own::cuFuncSetCacheConfig(reinterpret_cast<CUfunction>(k), config);
}

}  // namespace own

}  // namespace rgpu::interpose
