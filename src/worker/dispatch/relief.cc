// SPDX-License-Identifier: Apache-2.0
// Frames of two kinds overtake others, never each other. What comes before them in the stream is no
// work that the program may count on: the function that one of its threads runs now is called when
// all work in front of it is over.
#include "worker/dispatch/relief.h"

#include <chrono>
#include <thread>

#include "worker/calls/services.h"
#include "worker/driver/driver.h"

namespace rgpu::worker {

namespace {

using namespace std::chrono_literals;

// The dispatcher takes the word itself, most of the time. A function may take long.
constexpr std::chrono::microseconds kFirst = 300us, kLast = 2ms;

// True: it is done with. What is not as it should be the dispatcher refuses.
bool take(Session &s, CUcontext context, const wire::FrameHeader &h, const uint8_t *body)
{
    if (h.type >= calls::kCallCount) return false;
    Call call{h, static_cast<calls::CallId>(h.type), wire::Reader(body, h.bytes)};
    const Service &service = kServices[h.type];
    if (!calls::info(call.id).facts.relieves || h.bytes > service.max_bytes) return false;
    if (DRIVER(cuCtxSetCurrent)(context)) return false;
    call.relief = context;
    return service.handle(s, call) && !call.declined;
}

void relieve(Session &s)
{
    for (;;) {
        CUcontext context = s.callbacks.wait_until_one_stands();
        for (std::chrono::microseconds pause = kFirst; context; context = s.callbacks.stands()) {
            std::this_thread::sleep_for(pause);
            const bool looked =
                s.input.look_ahead([&](const wire::FrameHeader &h, const uint8_t *body) {
                    return take(s, context, h, body);
                });
            pause = looked ? kFirst : std::min(2 * pause, kLast);
        }
    }
}

}  // namespace

bool start_relief(Session &session)
{
    session.waiters.run([&session] { relieve(session); });
    return true;
}

}  // namespace rgpu::worker
