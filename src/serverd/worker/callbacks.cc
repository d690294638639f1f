// A gate for each host function. The layout of the body is described in interpose/callback.cc.
#include "serverd/worker/callbacks.h"

#include "serverd/worker/driver.h"
#include "serverd/worker/own.h"

namespace rgpu::worker {

namespace {
enum class Step : uint32_t { enqueue, done };
}

CUresult Callbacks::enqueue(Session &session, CUstream stream, uint64_t token)
{
    Gate *gate;
    {
        std::lock_guard lock(mutex_);
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

bool Callbacks::done(uint64_t token)
{
    std::lock_guard lock(mutex_);
    auto it = gates_.find(token);
    if (it == gates_.end()) return false;
    it->second->open = true;
    opened_.notify_all();
    return true;
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
    if (step != Step::enqueue || !call.body.at_end()) return misfit();
    CUstream stream = nullptr;
    CUresult r = s.objects.get(id, stream);
    if (!r) r = DRIVER(cuLaunchHostFunc) ? s.callbacks.enqueue(s, stream, token) : CUDA_ERROR_NOT_SUPPORTED;
    s.finish(call, r);
    return {};
}

}  // namespace rgpu::worker
