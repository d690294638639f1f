// SPDX-License-Identifier: Apache-2.0
// How each line of the table is served.
#pragma once

#include "worker/session/session.h"

namespace rgpu::worker {

// A handler of a line of the table. Fails only on a body that no client sends.
using Handler = Result<void> (*)(Session &, Call &);

// `handle` is null where a client may not send that call.
struct Service {
    Handler handle = nullptr;
    uint32_t max_bytes = wire::kMaxCallBytes;  // of the body
    bool streams = false;                      // the handler reads the body off `input` itself
};
extern const Service kServices[calls::kCallCount];

}  // namespace rgpu::worker
