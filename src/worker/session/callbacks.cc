// A gate for each host function. The layout of the body is described in
// interpose/stream/callback.cc.
#include "worker/session/callbacks.h"

#include "worker/calls/own.h"
#include "worker/driver/driver.h"

namespace rgpu::worker {

namespace {
enum class Step : uint32_t { enqueue, done, capture };

// Host functions in streams, and in graphs: more are no program's.
constexpr size_t kMostGates = 1 << 17;
}  // namespace

CUresult Callbacks::enqueue(Session &session, CUstream stream, uint64_t token)
{
    Gate *gate;
    {
        std::lock_guard lock(mutex_);
        if (gates_.size() >= kMostGates) return CUDA_ERROR_OUT_OF_MEMORY;
        auto &slot = gates_[token];
        if (slot) return CUDA_ERROR_INVALID_VALUE;
        slot = std::make_unique<Gate>(Gate{&session, this, token, false});
        gate = slot.get();
    }
    CUresult r = DRIVER(cuLaunchHostFunc)(stream, reached, gate);
    if (r) {
        // The client waits for this function: it learns now that its stream has failed.
        session.sender.callback(token, r);
        std::lock_guard lock(mutex_);
        gates_.erase(token);
    }
    return r;
}

// In a thread of the driver, with the stream standing at the function.
void Callbacks::reached(void *data)
{
    auto gate = static_cast<Gate *>(data);
    Callbacks &all = *gate->all;
    gate->session->turns.gate(true);
    gate->session->send_past();
    gate->session->sender.callback(gate->token, CUDA_SUCCESS);
    std::unique_lock lock(all.mutex_);
    all.opened_.wait(lock, [&] { return gate->open; });
    gate->session->turns.gate(false);
    all.gates_.erase(gate->token);
}

bool Callbacks::is_done(wire::Reader body) { return body.value<Step>() == Step::done; }

bool Callbacks::done(uint64_t token)
{
    std::lock_guard lock(mutex_);
    if (auto it = gates_.find(token); it != gates_.end())
        it->second->open = true;
    else if (auto graph = graphs_.find(token); graph != graphs_.end())
        graph->second->done++;
    else
        return false;
    opened_.notify_all();
    return true;
}

void *Callbacks::graph_function(Session &session, uint64_t token)
{
    std::lock_guard lock(mutex_);
    auto &f = graphs_[token];
    if (!f) f = std::make_unique<GraphFunction>(GraphFunction{&session, this, token, 0});
    return f.get();
}

uint64_t Callbacks::token_of(const void *graph_function)
{
    return static_cast<const GraphFunction *>(graph_function)->token;
}

// In a thread of the driver, with the graph standing at the node.
void Callbacks::graph_reached(void *data)
{
    auto f = static_cast<GraphFunction *>(data);
    f->session->send_past();
    f->session->sender.callback(f->token, CUDA_SUCCESS);
    std::unique_lock lock(f->all->mutex_);
    f->all->opened_.wait(lock, [&] { return f->done > 0; });
    f->done--;
}

CUresult Callbacks::capture(Session &session, CUstream stream, uint64_t token)
{
    return DRIVER(cuLaunchHostFunc)(stream, graph_reached, graph_function(session, token));
}

bool Callbacks::pending()
{
    std::lock_guard lock(mutex_);
    return !gates_.empty() || !graphs_.empty();
}

Result<void> own::cuLaunchHostFunc(Session &s, Call &call)
{
    auto step = call.body.value<Step>();
    if (step == Step::done) {
        auto token = call.body.value<uint64_t>();
        if (!call.body.at_end()) return misfit();
        s.callbacks.done(token);
        return {};
    }
    auto id = call.body.value<HandleId>();
    auto token = call.body.value<uint64_t>();
    if ((step != Step::enqueue && step != Step::capture) || !call.body.at_end()) return misfit();
    CUstream stream = nullptr;
    CUresult r = s.objects.get(id, stream);
    if (!r && !DRIVER(cuLaunchHostFunc)) r = CUDA_ERROR_NOT_SUPPORTED;
    if (!r)
        r = step == Step::capture ? s.callbacks.capture(s, stream, token)
                                  : s.callbacks.enqueue(s, stream, token);
    s.finish(call, r);
    return {};
}

}  // namespace rgpu::worker
