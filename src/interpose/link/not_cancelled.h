// SPDX-License-Identifier: Apache-2.0
// Threads of the program that it cancels (pthread_cancel) inside of a call.
#pragma once

#include <pthread.h>

namespace rgpu::interpose {

// While one lives, the calling thread goes on to the end of its call: others wait for what it
// reads, and the server for the rest of what it sends.
class NotCancelled {
public:
    NotCancelled() { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_); }
    ~NotCancelled() { pthread_setcancelstate(before_, nullptr); }
    NotCancelled(const NotCancelled &) = delete;
    NotCancelled &operator=(const NotCancelled &) = delete;

private:
    int before_ = 0;
};

}  // namespace rgpu::interpose
