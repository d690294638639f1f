// SPDX-License-Identifier: Apache-2.0
// Completions that the server pushes: once a query of an event was answered "not ready", the server
// is asked to say when it is reached, and further queries look at what has come instead of asking.
// Any thread.
#pragma once

#include <optional>

#include "calls/cuda_api.h"
#include "interpose/state/handles.h"

namespace rgpu::interpose::event_watch {

// Whether an event is reached, as far as anything heard from the server goes; empty: the server
// must be asked.
std::optional<bool> query(HandleId event);
// The server has answered NOT_READY for the event's record at `recorded` (idle.h); `heard`: what
// was heard before it was asked.
void not_ready(HandleId event, uint64_t recorded, uint64_t heard);

}  // namespace rgpu::interpose::event_watch
