// SPDX-License-Identifier: Apache-2.0
// Memory that several processes of a job share by descriptors. What the client's descriptors hold
// is a name (wire/shareable.h); the driver's own descriptors go from worker to worker
// (connection/mailbox.h).
//
// Body of an export: step (wire::ShareStep); give: the driver's number of the memory, or the pool's
// number, type, flags; closed: the name. Answer of give: the name. Body of an import: (pool: its
// number, flags) the name. Answer of an import of memory: the driver's number.
#include <functional>

#include "worker/calls/own.h"
#include "worker/driver/driver.h"
#include "worker/limits/memory_cap.h"

namespace rgpu::worker::own {

namespace {

using Kind = wire::ShareableName::Kind;

constexpr auto kDescriptor = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;

CUresult result_of(const Error &e)
{
    return e.kind == ErrorKind::invalid       ? CUDA_ERROR_INVALID_VALUE
           : e.kind == ErrorKind::unavailable ? CUDA_ERROR_NOT_READY
                                              : CUDA_ERROR_OPERATING_SYSTEM;
}

std::optional<wire::ShareableName> read_name(wire::Reader &body)
{
    return wire::decode_shareable(body.string());
}

// What is to be exported, and how the driver does it.
struct Exported {
    Kind kind = Kind::memory;
    uint64_t number = 0, bytes = 0;
    std::function<CUresult(int *fd)> by_driver;
};

CUresult give_name(Session &s, const Exported &what, std::vector<uint8_t> &answer)
{
    std::optional<wire::ShareableName> name;
    if (what.kind == Kind::memory) name = s.exports.again(what.number);
    if (!name) {
        int fd = -1;
        if (CUresult r = what.by_driver(&fd)) return r;
        auto added = s.exports.add(what.kind, what.number, Fd(fd), what.bytes);
        if (!added) return result_of(added.error());
        name = std::move(*added);
    }
    const auto bytes = wire::encode(*name);
    wire::Writer(answer).string({reinterpret_cast<const char *>(bytes.data()), bytes.size()});
    return CUDA_SUCCESS;
}

// A name that the client had is closed everywhere.
CUresult end_name(Session &s, const std::optional<wire::ShareableName> &name)
{
    if (!name || !s.exports.has(name->key)) return CUDA_ERROR_INVALID_VALUE;
    const auto memory = s.exports.closed(name->key);
    return memory ? DRIVER(cuMemRelease)(*memory) : CUDA_SUCCESS;
}

// Calls give(result) for what is to be given, whose parameters it reads.
template <class Give> Result<void> serve_export(Session &s, Call &call, bool can, Give give)
{
    const auto step = call.body.value<wire::ShareStep>();
    std::vector<uint8_t> answer;
    CUresult r = CUDA_SUCCESS;
    if (step == wire::ShareStep::closed) {
        const auto name = read_name(call.body);
        if (!call.body.at_end()) return misfit();
        r = end_name(s, name);
    } else {
        Exported what;
        r = give(what);
        if (step != wire::ShareStep::give || !call.body.at_end()) return misfit();
        if (!can || !s.exports.can()) r = CUDA_ERROR_NOT_SUPPORTED;
        if (!r) r = give_name(s, what, answer);
    }
    s.finish(call, r, answer);
    return {};
}

// The descriptor that a name stands for, of this kind.
CUresult find(Session &s, const std::optional<wire::ShareableName> &name, Kind kind,
              Received &received)
{
    if (!name || name->kind != kind) return CUDA_ERROR_INVALID_VALUE;
    auto found = s.exports.find(*name);
    if (!found) return result_of(found.error());
    received = std::move(*found);
    return CUDA_SUCCESS;
}

void *as_handle(const Fd &fd) { return reinterpret_cast<void *>(static_cast<intptr_t>(fd.get())); }

}  // namespace

Result<void> cuMemExportToShareableHandle(Session &s, Call &call)
{
    const auto by_driver = DRIVER(cuMemExportToShareableHandle);
    return serve_export(s, call, by_driver, [&](Exported &what) {
        what.number = call.body.value<CUmemGenericAllocationHandle>();
        const auto type = call.body.value<CUmemAllocationHandleType>();
        const auto flags = call.body.value<unsigned long long>();
        what.by_driver = [=, number = what.number](int *fd) {
            return by_driver(fd, number, kDescriptor, flags);
        };
        if (MemoryCap *cap = memory_cap())
            if (const auto held = cap->physical.of(what.number)) what.bytes = held->bytes;
        return type == kDescriptor && s.addresses.has(calls::Token::memory, what.number)
                   ? CUDA_SUCCESS
                   : CUDA_ERROR_INVALID_VALUE;
    });
}

Result<void> cuMemPoolExportToShareableHandle(Session &s, Call &call)
{
    const auto by_driver = DRIVER(cuMemPoolExportToShareableHandle);
    return serve_export(s, call, by_driver, [&](Exported &what) {
        const auto id = call.body.value<HandleId>();
        const auto type = call.body.value<CUmemAllocationHandleType>();
        const auto flags = call.body.value<unsigned long long>();
        CUmemoryPool pool = nullptr;
        if (CUresult r = s.objects.get(id, pool)) return r;
        what.kind = Kind::pool;
        what.by_driver = [=](int *fd) { return by_driver(fd, pool, kDescriptor, flags); };
        return type == kDescriptor && pool ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    });
}

Result<void> cuMemImportFromShareableHandle(Session &s, Call &call)
{
    const auto name = read_name(call.body);
    if (!call.body.at_end()) return misfit();
    CUmemGenericAllocationHandle handle = 0;
    Received received;
    const auto import = DRIVER(cuMemImportFromShareableHandle);
    CUresult r = import ? find(s, name, Kind::memory, received) : CUDA_ERROR_NOT_SUPPORTED;
    if (!r) {
        if (MemoryCap *cap = memory_cap()) cap->import_comes(received.bytes);
        r = import(&handle, as_handle(received.fd), kDescriptor);
    }
    std::vector<uint8_t> answer;
    if (!r) {
        s.addresses.give(calls::Token::memory, handle);
        wire::Writer(answer).value(handle);
    }
    s.finish(call, r, answer);
    return {};
}

Result<void> cuMemPoolImportFromShareableHandle(Session &s, Call &call)
{
    const auto id = call.body.value<HandleId>();
    const auto flags = call.body.value<unsigned long long>();
    const auto name = read_name(call.body);
    if (!call.body.at_end()) return misfit();
    CUmemoryPool pool = nullptr;
    Received received;
    const auto import = DRIVER(cuMemPoolImportFromShareableHandle);
    CUresult r = import ? find(s, name, Kind::pool, received) : CUDA_ERROR_NOT_SUPPORTED;
    if (!r) r = import(&pool, as_handle(received.fd), kDescriptor, flags);
    if (!r && !s.objects.set(id, pool)) r = CUDA_ERROR_INVALID_VALUE;
    s.finish(call, r);
    return {};
}

Result<void> cuMemRelease(Session &s, Call &call)
{
    const auto handle = call.body.value<CUmemGenericAllocationHandle>();
    if (!call.body.at_end()) return misfit();
    const auto release = DRIVER(cuMemRelease);
    CUresult r = !release                                        ? CUDA_ERROR_NOT_SUPPORTED
                 : s.addresses.has(calls::Token::memory, handle) ? CUDA_SUCCESS
                                                                 : CUDA_ERROR_INVALID_VALUE;
    if (!r) {
        s.addresses.take(calls::Token::memory, handle);
        const bool last = !s.addresses.has(calls::Token::memory, handle);
        if (!last || !s.exports.keeps(handle)) r = release(handle);
        if (r) s.addresses.give(calls::Token::memory, handle);
    }
    s.finish(call, r);
    return {};
}

}  // namespace rgpu::worker::own
