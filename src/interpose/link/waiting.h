// SPDX-License-Identifier: Apache-2.0
// Calls that would be posted and yet wait for their answers.
#pragma once

#include <cstdint>

namespace rgpu::interpose {

// Whether the calling thread's next call waits, so that an error belongs to the call that returns
// it: RGPU_SYNC=1 wants it, the thread has a Waiting, or an error came that note_error() keeps.
bool every_call_waits();

// The server answered a call with this. After an error that every later call of a context returns,
// too, all calls of the process wait: posting would hide it from the call that is to return it. Any
// thread.
void note_error(uint32_t result);

// While one lives, every call of the calling thread waits: for calls that a driver may refuse for
// reasons that only it knows, so that the refusal belongs to the call.
class Waiting {
public:
    explicit Waiting(bool wait);
    ~Waiting();
    Waiting(const Waiting &) = delete;
    Waiting &operator=(const Waiting &) = delete;

private:
    bool wait_;
};

}  // namespace rgpu::interpose
