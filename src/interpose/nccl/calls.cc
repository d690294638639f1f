// SPDX-License-Identifier: Apache-2.0
// Groups, and the frames that calls go in.
#include "interpose/nccl/calls.h"

#include <unistd.h>

#include <cstring>
#include <memory>
#include <vector>

#include "interpose/base/guard.h"
#include "interpose/base/log.h"
#include "interpose/nccl/request.h"
#include "interpose/state/process.h"
#include "interpose/stub/by_hand.h"
#include "wire/nccl.h"

namespace rgpu::interpose::nccl {
namespace {

using calls::NcclFunction;
using calls::NcclWay;

constexpr auto kCall = static_cast<calls::CallId>(wire::kNcclCall);

template <class T> T *pointer(uint64_t word) { return reinterpret_cast<T *>(word); }

// What the calling thread has gathered since ncclGroupStart.
struct Group {
    int depth = 0;
    int error = calls::kNcclSuccess;  // the first
    std::vector<std::unique_ptr<Request>> requests;
};
// A plain pointer: programs end groups on threads whose thread_locals are gone already.
thread_local Group *this_group;

Group &group()
{
    if (!this_group) this_group = new Group;
    return *this_group;
}

void write_variables(wire::Writer &w, bool really)
{
    std::vector<std::string_view> all;
    for (char **e = environ; really && e && *e && all.size() < wire::kMostNcclVariables; e++) {
        const std::string_view one = *e;
        const size_t equals = one.find('=');
        if (!one.starts_with("NCCL_") || equals == one.npos) continue;
        if (calls::nccl_variable(one.substr(0, equals)) &&
            calls::nccl_value(one.substr(equals + 1)))
            all.push_back(one);
    }
    w.value(static_cast<uint32_t>(all.size()));
    for (const std::string_view one : all) w.string(one);
}

// A sentence of the server's, once; it may hold anything.
void tell(std::string text)
{
    for (char &c : text)
        if (c < ' ' || c > '~') c = '?';
    Program::get().set_last_error(text);
    if (text.starts_with("rgpu: ") &&
        Program::get().says_now(2 + std::hash<std::string>()(text) % 254))
        say("%s", text.c_str() + 6);
}

using Requests = std::vector<std::unique_ptr<Request>>;

int send(const Requests &requests, bool grouped)
{
    const unsigned server = requests.front()->server();
    ServerSession *const s = session_at(server);
    if (!s) return calls::kNcclUnhandledCudaError;
    if (!s->takes_nccl()) {
        tell("rgpu: NCCL is not carried out: the GPU server runs an older version of rgpu");
        return calls::kNcclSystemError;
    }
    std::vector<uint8_t> calls;
    wire::Writer w(calls);
    for (const auto &r : requests) r->write(w);
    if (calls.size() > wire::kMaxCallBytes - (64 << 10) || requests.size() > wire::kMostNcclCalls) {
        tell("rgpu: a group of NCCL's calls is larger than one frame: end it earlier");
        return calls::kNcclSystemError;
    }
    const bool first = Program::get().first_for(server);
    Reply reply;
    const CUresult lost = s->ask(
        kCall, requests.front()->context(),
        [&](wire::Writer &body) {
            write_variables(body, first);
            body.value(uint8_t{grouped});
            body.value(static_cast<uint32_t>(requests.size()));
            body.bytes(calls.data(), calls.size());
        },
        reply);
    if (lost) return calls::kNcclRemoteError;
    wire::Reader r(reply.body.data(), reply.body.size());
    const int result = r.value<int>();
    const std::string_view text = r.string();
    if (!r.ok()) return calls::kNcclInternalError;
    if (result != calls::kNcclSuccess && result != calls::kNcclInProgress) {
        if (!text.empty()) tell(std::string(text));
        return result;
    }
    for (const auto &one : requests)
        if (!one->read(r)) return calls::kNcclInternalError;
    return result;
}

int carry_out(const Requests &requests, bool grouped)
{
    Unless finished([&] {
        for (const auto &r : requests) r->finish(true);
    });
    const int result = send(requests, grouped);
    finished.keep();
    const bool failed = result != calls::kNcclSuccess && result != calls::kNcclInProgress;
    for (const auto &r : requests) r->finish(failed);
    return result;
}

int begin_group()
{
    group().depth++;
    return calls::kNcclSuccess;
}

int end_group()
{
    if (!this_group || !group().depth) return calls::kNcclInvalidUsage;
    if (--group().depth) return calls::kNcclSuccess;
    const Requests requests = std::exchange(group().requests, {});
    int result = std::exchange(group().error, calls::kNcclSuccess);
    for (const auto &r : requests)
        if (!result && r->server() != requests.front()->server()) {
            tell("rgpu: NCCL: a group over GPUs of several servers is not carried out");
            result = calls::kNcclInvalidUsage;
        }
    if (requests.empty()) return result;
    if (!result) return carry_out(requests, true);
    for (const auto &r : requests) r->finish(true);
    return result;
}

// Nothing is known of how long it would take: NCCL's own answer where it cannot tell.
int simulate_end()
{
    tell("rgpu: ncclGroupSimulateEnd is not carried out");
    if (!this_group || !group().depth) return calls::kNcclInvalidUsage;
    group().error = calls::kNcclInvalidUsage;
    return end_group();
}

int allocate(void **where, size_t bytes)
{
    if (!where) return calls::kNcclInvalidArgument;
    *where = nullptr;
    if (!bytes) return calls::kNcclSuccess;
    CUdeviceptr address = 0;
    if (own::cuMemAlloc_v2(&address, bytes)) return calls::kNcclUnhandledCudaError;
    *where = pointer<void>(address);
    return calls::kNcclSuccess;
}

int free(void *address)
{
    if (!address) return calls::kNcclSuccess;
    return own::cuMemFree_v2(reinterpret_cast<CUdeviceptr>(address))
               ? calls::kNcclUnhandledCudaError
               : calls::kNcclSuccess;
}

// As on hardware without them: no window, and no error.
int register_window(const void *communicator, void **window)
{
    if (!window || !Program::get().find(communicator)) return calls::kNcclInvalidArgument;
    *window = nullptr;
    return calls::kNcclSuccess;
}

uint64_t do_here(const NcclFunction &f, const uint64_t *words)
{
    const auto is = [&](std::string_view name) { return f.name == name; };
    if (is("ncclGetLastError")) return reinterpret_cast<uint64_t>(Program::get().last_error());
    int result = calls::kNcclSuccess;
    if (is("ncclGroupStart")) result = begin_group();
    if (is("ncclGroupEnd")) result = end_group();
    if (is("ncclGroupSimulateEnd")) result = simulate_end();
    if (is("ncclMemAlloc")) result = allocate(pointer<void *>(words[0]), words[1]);
    if (is("ncclMemFree")) result = free(pointer<void>(words[0]));
    if (is("ncclCommWindowRegister"))
        result = register_window(pointer<void>(words[0]), pointer<void *>(words[3]));
    return static_cast<uint64_t>(result);
}

int ask(const NcclFunction &f, const uint64_t *words)
{
    // As NCCL does by itself.
    if (!session())
        if (own::cuInit(0)) return calls::kNcclUnhandledCudaError;
    if (!session()) return calls::kNcclUnhandledCudaError;
    auto request = std::make_unique<Request>(f);
    const int refused = request->take(words);
    const bool gathered = f.way == NcclWay::grouped && this_group && group().depth;
    if (refused) {
        if (gathered && !group().error) group().error = refused;
        return refused;
    }
    if (gathered) {
        group().requests.push_back(std::move(request));
        return calls::kNcclSuccess;
    }
    Requests one;
    one.push_back(std::move(request));
    return carry_out(one, false);
}

}  // namespace

uint64_t call(const char *name, const uint64_t *words)
{
    const NcclFunction *const f = calls::find_nccl(name);
    if (!f || f->way == NcclWay::none) {
        tell("rgpu: " + std::string(name) + " is not carried out on remote GPUs");
        return calls::kNcclInvalidUsage;
    }
    if (f->way == NcclWay::here) return do_here(*f, words);
    return static_cast<uint64_t>(ask(*f, words));
}

}  // namespace rgpu::interpose::nccl
