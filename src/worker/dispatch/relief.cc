// SPDX-License-Identifier: Apache-2.0
// Calls that relieve overtake other frames, never each other. They may: the program's function that
// they are sent for was called when all work in front of it was over, so it counts on no frame that
// has not been carried out.
#include "worker/dispatch/relief.h"

#include <chrono>
#include <thread>

#include "worker/calls/services.h"
#include "worker/driver/driver.h"

namespace rgpu::worker {

namespace {

using std::chrono::microseconds;

// Between looks while the dispatcher is away: one function may come behind the other. Else it takes
// the word itself.
constexpr microseconds kAway{300}, kElse = Input::kAwayForLong;

// True: it is done with. What is not as it should be the dispatcher refuses.
bool take(Session &s, CUcontext context, const wire::FrameHeader &h, const uint8_t *body)
{
    if (h.type >= calls::kCallCount || s.waiters.behind() > Session::kMostBehind) return false;
    Call call{h, static_cast<calls::CallId>(h.type), wire::Reader(body, h.bytes)};
    const Service &service = kServices[h.type];
    if (!calls::info(call.id).facts.relieves || h.bytes > service.max_bytes) return false;
    if (!context || DRIVER(cuCtxSetCurrent)(context)) return false;
    call.relief = context;
    return service.handle(s, call) && !call.declined;
}

void relieve(Session &s)
{
    for (microseconds pause = kElse;;) {
        const CUcontext context = s.callbacks.wait_until_one_stands();
        std::this_thread::sleep_for(pause);
        const bool away = s.input.look_ahead([&](const wire::FrameHeader &h, const uint8_t *body) {
            return take(s, context, h, body);
        });
        pause = away ? kAway : kElse;
    }
}

}  // namespace

void start_relief(Session &session)
{
    session.waiters.run([&session] { relieve(session); });
}

}  // namespace rgpu::worker
