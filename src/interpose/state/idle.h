// SPDX-License-Identifier: Apache-2.0
// What the client knows to be over without asking: a stream or context that was synchronised and to
// which nothing was sent since, an event that was reached and not recorded again.
//
// Nothing is known while a stream is captured; of events nothing once graphs or other processes may
// record them. Any thread.
#pragma once

#include "interpose/state/handles.h"

namespace rgpu::interpose::idle {

// Whether the answer of a synchronisation or query is known: everything there is over.
bool context(HandleId context);
bool stream(HandleId stream);
bool event(HandleId event);

// The calls sent so far: taken before the server is asked, given back when it says that all is
// over.
uint64_t moment();
void learn_context(HandleId context, uint64_t asked);
void learn_stream(HandleId stream, uint64_t asked);
void learn_event(HandleId event, uint64_t recorded);
// The moment of an event's last record, for learn_event().
uint64_t recorded(HandleId event);

// Around the call that records an event.
void recording(HandleId event);
void recorded_in(HandleId event, HandleId stream);
// Whether anything can be known of events.
bool may_know_events();
// From now on events may be recorded by others than this client's calls.
void events_elsewhere();

}  // namespace rgpu::interpose::idle
