// SPDX-License-Identifier: Apache-2.0
// The table of functions that are waiting for their streams, and the threads that run them.
#include "interpose/stream/callback.h"

#include <atomic>
#include <map>
#include <mutex>

#include "interpose/base/background.h"
#include "interpose/mirror/mirror.h"
#include "interpose/state/capture.h"
#include "interpose/state/client.h"
#include "interpose/state/servers.h"
#include "interpose/stub/by_hand.h"
#include "interpose/stub/stub.h"
#include "util/waiters.h"
#include "wire/bodies.h"

namespace rgpu::interpose {

namespace {

using Step = wire::HostFunctionStep;

struct Function {
    CUhostFn plain = nullptr;
    CUstreamCallback with_status = nullptr;
    CUstream stream = nullptr;
    void *data = nullptr;
    std::function<void(CUresult)> job = nullptr;

    void run(CUresult status) const
    {
        if (with_status)
            with_status(stream, status, data);
        else if (status == CUDA_SUCCESS)  // a host function does not run in a failed context
            plain(data);
    }
};

struct Callbacks {
    std::mutex mutex;
    std::map<uint64_t, Function> waiting;
    std::map<uint64_t, Function> graphs;  // of graphs' nodes; these stay
    std::map<std::pair<CUhostFn, void *>, uint64_t> graph_tokens;
    std::atomic<bool> any_graphs{false};
    std::atomic<void (*)(uint64_t)> before_graphs{nullptr}, after_graphs{nullptr};
    uint64_t next_token = 1;
    std::atomic<size_t> under_way{0};   // the program's, but for those of graphs
    std::atomic<size_t> in_streams{0};  // all but those of graphs, until the server has heard
    std::atomic<uint64_t> ever_in_streams{0};
    Waiters threads;  // jobs: one for each stream that stands at a function
};

Callbacks &callbacks() { return client_part<Callbacks>(Part::host_functions); }

void run(ServerSession &s, uint64_t token, CUresult status)
{
    const At at(s.index());
    Callbacks &c = callbacks();
    Function f;
    bool of_graph = false;
    {
        std::lock_guard lock(c.mutex);
        if (auto it = c.waiting.find(token); it != c.waiting.end()) {
            f = std::move(it->second);
            c.waiting.erase(it);
        } else if (auto graph = c.graphs.find(token); graph != c.graphs.end()) {
            f = graph->second;
            of_graph = true;
        } else {
            return;
        }
    }
    in_our_thread(s, [&] {
        if (const auto before = c.before_graphs.load(); of_graph && before) before(token);
        mirror::before_host_function();
    });
    if (f.job)
        in_our_thread(s, [&] { f.job(status); });
    else
        f.run(status);  // what the program's function throws is its own
    in_our_thread(s, [&] {
        mirror::after_host_function();
        if (const auto after = c.after_graphs.load(); of_graph && after) after(token);
        if (!of_graph && !f.job) c.under_way--;
        s.tell(CallId::cuLaunchHostFunc, calls::kNoHandle, [&](wire::Writer &w) {
            wire::HostFunction{Step::done, 0, token}.write(w);
        });
        if (!of_graph) c.in_streams--;
    });
}

CUresult enqueue(const Function &f)
{
    ServerSession *s = session();
    if (!s) return not_ready();
    if (CUresult r = context_state()) return r;
    if (!f.plain && !f.with_status && !f.job) return CUDA_ERROR_INVALID_VALUE;
    if (CUresult r = may_call_back(*s)) return r;
    HandleId stream = 0;
    if (CUresult r = detail::id_in(f.stream, stream)) return r;
    if (CUresult r = may_give_work(stream)) return r;
    if (is_captured(stream)) {
        // CUDA: "cuStreamAddCallback ... is not supported in a capture".
        if (f.with_status || f.job) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
        const uint64_t token = graph_function(f.plain, f.data);
        return s->post(CallId::cuLaunchHostFunc, current_context(), [&](wire::Writer &w) {
            wire::HostFunction{Step::capture, stream, token}.write(w);
        });
    }
    Callbacks &c = callbacks();
    uint64_t token;
    {
        std::lock_guard lock(c.mutex);
        token = c.next_token++;
        c.waiting.emplace(token, f);
    }
    c.in_streams++;
    c.ever_in_streams++;
    if (!f.job) c.under_way++;
    Unless posted([&] {
        std::lock_guard lock(c.mutex);
        if (!c.waiting.erase(token)) return;
        c.in_streams--;
        if (!f.job) c.under_way--;
    });
    s->expect_callbacks(1, callback_due);
    Unless sent([&] { s->expect_fewer_callbacks(1); });
    CUresult r = s->post(CallId::cuLaunchHostFunc, current_context(), [&](wire::Writer &w) {
        wire::HostFunction{Step::enqueue, stream, token}.write(w);
    });
    sent.keep();
    if (!r) posted.keep();
    return r;
}

}  // namespace

void callback_due(ServerSession &s, uint64_t token, uint32_t status)
{
    callbacks().threads.run([&s, token, status] { run(s, token, static_cast<CUresult>(status)); });
}

CUresult may_call_back(ServerSession &s)
{
    try {
        callbacks().threads.prepare();
    } catch (const std::exception &e) {
        say_no_thread(e.what());
        return CUDA_ERROR_OPERATING_SYSTEM;
    }
    return s.hears_by_itself() ? CUDA_SUCCESS : CUDA_ERROR_OPERATING_SYSTEM;
}

bool any_function_under_way() { return callbacks().under_way != 0; }

bool any_function_to_come() { return callbacks().in_streams != 0 || any_graph_function(); }

// Both counters go up before a function's frame is sent, and one goes down behind the frame that
// says that it is over. A function may be put into a stream, and be over, between any two looks.
NoFunctions::NoFunctions() : begun_(callbacks().ever_in_streams), none_(callbacks().in_streams == 0)
{}
bool NoFunctions::held() const
{
    return none_ && callbacks().ever_in_streams == begun_ && !any_graph_function();
}

CUresult call_in_stream(CUstream stream, CUhostFn function, void *data)
{
    return enqueue({function, nullptr, stream, data});
}

CUresult call_in_stream(CUstream stream, std::function<void(CUresult)> job)
{
    Function f;
    f.stream = stream, f.job = std::move(job);
    return enqueue(f);
}

uint64_t graph_function(CUhostFn function, void *data)
{
    Callbacks &c = callbacks();
    std::lock_guard lock(c.mutex);
    if (auto it = c.graph_tokens.find({function, data}); it != c.graph_tokens.end())
        return it->second;
    // The function first: a stream that stands at a token of no function would stand there for
    // ever.
    const uint64_t token = c.next_token++;
    c.graphs[token] = {function, nullptr, nullptr, data};
    c.graph_tokens[{function, data}] = token;
    c.any_graphs = true;
    return token;
}

bool find_graph_function(uint64_t token, CUhostFn &function, void *&data)
{
    Callbacks &c = callbacks();
    std::lock_guard lock(c.mutex);
    auto it = c.graphs.find(token);
    if (it == c.graphs.end()) return false;
    function = it->second.plain, data = it->second.data;
    return true;
}

bool any_graph_function() { return callbacks().any_graphs; }

void set_around_graph_functions(void (*before)(uint64_t token), void (*after)(uint64_t token))
{
    callbacks().before_graphs = before;
    callbacks().after_graphs = after;
}

namespace own {

CUresult cuLaunchHostFunc(CUstream stream, CUhostFn function, void *data)
{
    return call_in_stream(stream, function, data);
}

CUresult cuStreamAddCallback(CUstream stream, CUstreamCallback function, void *data,
                             unsigned int flags)
{
    return flags ? CUDA_ERROR_INVALID_VALUE : enqueue({nullptr, function, stream, data});
}

}  // namespace own

}  // namespace rgpu::interpose
