// SPDX-License-Identifier: Apache-2.0
// What the program is likely to read once it has waited: many programs wait for their work and then
// copy a few bytes of its result, step after step. The copy is sent with the wait, so that both are
// one round trip.
//
// The bytes are used only if the copy comes, and if nothing was sent to the server or heard from it
// since the wait: then they are what a copy would have brought now. It is asked for behind
// everything in its stream, as the program's own would be; so no other stream may be able to write
// meanwhile, which is known of the stream that was waited for and, without non-blocking streams, of
// the legacy default stream. Any thread.
#pragma once

#include "calls/cuda_api.h"
#include "interpose/state/handles.h"

namespace rgpu::interpose::read_ahead {

// Around a wait that asks the server. The constructor may send a copy in front of it.
class Wait {
public:
    // For `stream`, if not kNoStream.
    explicit Wait(HandleId stream = kNoStream);
    // The wait is over, and went well.
    void over();

    static constexpr HandleId kNoStream = ~HandleId{};
    Wait(const Wait &) = delete;
    Wait &operator=(const Wait &) = delete;
};

// A copy to the host for which the program waits: whether its bytes were there. They are in `host`
// then.
bool take(void *host, CUdeviceptr device, size_t bytes, HandleId stream);

// From now on streams exist that the legacy default stream does not wait for.
void streams_pass_by();
// From now on other processes may write into this one's device memory.
void written_elsewhere();

}  // namespace rgpu::interpose::read_ahead
