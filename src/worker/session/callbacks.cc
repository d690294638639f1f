// SPDX-License-Identifier: Apache-2.0
// A gate for each host function.
#include "worker/session/callbacks.h"

#include <algorithm>

#include "worker/driver/driver.h"

namespace rgpu::worker {

namespace {
// Host functions in streams, and in graphs: more are no program's.
constexpr size_t kMostGates = 1 << 17;

CUcontext current()
{
    CUcontext context = nullptr;
    DRIVER(cuCtxGetCurrent)(&context);
    return context;
}
}  // namespace

bool Callbacks::any_shut() const
{
    return std::any_of(gates_.begin(), gates_.end(), [](const auto &g) { return !g.second->open; });
}

std::optional<CUcontext> Callbacks::standing() const
{
    for (const auto &[token, gate] : gates_)
        if (gate->reached && !gate->open) return gate->context;
    for (const auto &[token, function] : graphs_)
        if (function->reached > function->done) return function->context;
    return {};
}

CUcontext Callbacks::wait_until_one_stands()
{
    std::unique_lock lock(mutex_);
    std::optional<CUcontext> context;
    stopped_.wait(lock, [&] { return (context = standing()).has_value(); });
    return *context;
}

CUresult Callbacks::enqueue(CUstream stream, uint64_t token)
{
    Gate *gate;
    {
        std::lock_guard lock(mutex_);
        if (gates_.size() >= kMostGates) return CUDA_ERROR_OUT_OF_MEMORY;
        auto &slot = gates_[token];
        if (slot) return CUDA_ERROR_INVALID_VALUE;
        slot = std::make_unique<Gate>(Gate{this, token, current()});
        any_ = true;
        gate = slot.get();
    }
    CUresult r = DRIVER(cuLaunchHostFunc)(stream, reached, gate);
    if (r) {
        // The client waits for this function: it learns now that its stream has failed.
        sender_.callback(token, r);
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
    all.turns_.gate(true);
    all.send_past_();
    all.sender_.callback(gate->token, CUDA_SUCCESS);
    std::unique_lock lock(all.mutex_);
    gate->reached = true;
    all.stopped_.notify_all();
    all.opened_.wait(lock, [&] { return gate->open; });
    all.turns_.gate(false);
    all.gates_.erase(gate->token);
}

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

void *Callbacks::graph_function(uint64_t token)
{
    std::lock_guard lock(mutex_);
    auto &f = graphs_[token];
    if (!f) f = std::make_unique<GraphFunction>(GraphFunction{this, token, current()});
    any_ = true;
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
    Callbacks &all = *f->all;
    all.send_past_();
    all.sender_.callback(f->token, CUDA_SUCCESS);
    std::unique_lock lock(all.mutex_);
    f->reached++;
    all.stopped_.notify_all();
    all.opened_.wait(lock, [&] { return f->done > 0; });
    f->reached--, f->done--;
}

CUresult Callbacks::capture(CUstream stream, uint64_t token)
{
    return DRIVER(cuLaunchHostFunc)(stream, graph_reached, graph_function(token));
}

bool Callbacks::pending()
{
    std::lock_guard lock(mutex_);
    return !gates_.empty() || !graphs_.empty();
}

bool Callbacks::any_to_run()
{
    std::lock_guard lock(mutex_);
    return any_shut() || standing().has_value();
}

bool Callbacks::waits_for_client()
{
    std::lock_guard lock(mutex_);
    return !graphs_.empty() || any_shut();
}

}  // namespace rgpu::worker
