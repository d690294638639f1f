// SPDX-License-Identifier: Apache-2.0
// How calls are answered, and in which context.
#include "worker/session/session.h"

#include <cstdio>
#include <utility>

#include "calls/errors.h"
#include "worker/driver/driver.h"
#include "worker/limits/metering.h"

namespace rgpu::worker {

void Session::use(std::unique_ptr<net::Transport> transport)
{
    Metering::here().over_network(transport->name() != std::string_view("shm"));
    before_ = std::exchange(transport_, std::move(transport));
    input.use(*transport_);
    sender.use(*transport_);
    staging.use(*transport_);
    large_staging.use(*transport_);
}

CUresult Session::enter(HandleId id, bool &gone)
{
    CUcontext context = nullptr, now = nullptr;
    context_ = nullptr;
    // A client gives contexts' numbers once only. Without a context goes what needs none.
    if (objects.get(id, context)) gone = true, context = nullptr;
    // Creating and destroying contexts changes what is current: look rather than remember.
    if (CUresult r = DRIVER(cuCtxGetCurrent)(&now)) return r;
    if (now != context)
        if (CUresult r = DRIVER(cuCtxSetCurrent)(context)) return r;
    context_ = context;
    return CUDA_SUCCESS;
}

void Session::when_quiet(const Call &call, std::function<void(const Call &)> carry_out)
{
    if (!call.wants_reply() || !callbacks.any() || !callbacks.any_to_run()) return carry_out(call);
    late_.push_back({call, std::chrono::steady_clock::now() + kPatience, std::move(carry_out)});
}

bool Session::carry_out_late()
{
    while (!late_.empty() &&
           (!callbacks.any_to_run() || std::chrono::steady_clock::now() >= late_.front().at_last)) {
        Late late = std::move(late_.front());
        late_.pop_front();
        const Input::Away away(input, true);
        if (CUresult r = enter(late.call.header.value, late.call.context_gone))
            finish(late.call, r);
        else
            late.carry_out(late.call);
    }
    return !late_.empty();
}

void Session::finish(const Call &call, CUresult result, const std::vector<uint8_t> &body)
{
    result = call.told(result);
    if (call.wants_reply()) {
        // One that says that something is over lets the program go on as a wait does.
        if (calls::info(call.id).facts.tells_progress) send_past();
        sender.reply(call.header.sequence, result, body);
    } else if (result) {
        CUresult none = CUDA_SUCCESS;
        posted_error_.compare_exchange_strong(none, result);
        const char *name = calls::error_name(result);
        fprintf(stderr, "posted %s failed: %s\n", calls::info(call.id).symbol.data(),
                name ? name : "unknown error");
    }
}

void Session::send_past()
{
    console_.drain(sender);
    copies.send_finished();
}

void Session::finish_wait(const Call &call, CUresult result)
{
    send_past();
    CUresult posted = posted_error_.exchange(CUDA_SUCCESS);
    sender.reply(call.header.sequence, result ? call.told(result) : posted);
}

}  // namespace rgpu::worker
