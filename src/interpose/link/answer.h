// SPDX-License-Identifier: Apache-2.0
// What one call is answered with, and where its answer goes.
//
// Whoever sends the call owns its Answer and keeps it until it is done: from the moment at which
// the call is sent, the thread that reads writes to it. Answers (answers.h) guards `done` and
// everything that the reader writes with its lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "calls/cuda_api.h"
#include "interpose/base/forecasting.h"
#include "wire/frame.h"

namespace rgpu::interpose {

struct Reply {
    CUresult result = CUDA_SUCCESS;
    std::vector<uint8_t> body;
};

// An answer that is awaited, or a copy whose bytes are under way.
struct Answer {
    bool done = false;
    bool waited = true;    // false: a posted copy, nobody waits, owned by Answers
    bool copy = false;     // bytes come into the program's memory, and no answer's body
    bool ahead = false;    // no thread waits for it yet
    bool untaken = false;  // it has come and its thread has not been here since
    bool news = true;      // it may tell the program how far the GPU is
    uint64_t asked = 0;    // when it was sent, in nanoseconds; 0: it was not
    Reply reply;
    uint8_t *to = nullptr;  // destination of a copy: of its next byte
    size_t left = 0;
    const uint8_t *begin = nullptr, *end = nullptr;  // all of its destination
    uint64_t stream = 0;
    std::shared_ptr<forecast::Trip> trip;  // where a forecast is made
    bool begins_lanes = false;             // behind the answer, lanes carry what comes

    Answer() = default;
    // Of a copy to the host.
    Answer(void *destination, size_t bytes, bool somebody_waits, uint64_t of_stream)
        : waited(somebody_waits), copy(true), to(static_cast<uint8_t *>(destination)), left(bytes),
          begin(to), end(to + bytes), stream(of_stream)
    {}
};

// Where a call's answer goes: to nobody, to an Answer whose owner waits until it is done, or to
// that of a posted copy, which Answers owns from the moment at which the call is sent.
struct Awaited {
    Awaited() = default;
    Awaited(Answer &a) : answer(&a) {}
    Awaited(std::unique_ptr<Answer> a) : answer(a.get()), posted(std::move(a)) {}

    // A thread waits for it, or for the bytes of a posted copy, soon: what is large lets it go
    // first.
    bool goes_first() const { return answer && !answer->ahead; }
    // A thread waits for it now: its call does not wait in the buffer for others.
    bool goes_at_once() const { return goes_first() && answer->waited; }
    // Of the call's frame.
    uint16_t flags() const
    {
        if (!answer) return 0;
        return wire::kWantsReply | (answer->copy && goes_at_once() ? wire::kCallerWaits : 0);
    }

    Answer *answer = nullptr;
    std::unique_ptr<Answer> posted;
};

}  // namespace rgpu::interpose
