// SPDX-License-Identifier: Apache-2.0
// Moments are counts of calls sent: equal counts mean that nothing was asked of the server in
// between.
#include "interpose/state/idle.h"

#include <atomic>
#include <limits>

#include "interpose/state/capture.h"
#include "interpose/state/client.h"
#include "interpose/state/contexts.h"
#include "interpose/state/servers.h"

namespace rgpu::interpose::idle {

namespace {

constexpr uint64_t kBeingRecorded = std::numeric_limits<uint64_t>::max();

bool may_know() { return session() && session()->state() == CUDA_SUCCESS && !any_capture(); }

Slot *slot(HandleId id) { return id >= calls::kFirstHandle ? Handles::get().at(id) : nullptr; }

// Where the moment of a stream is kept: the default streams are their context's.
std::atomic<uint64_t> *moment_of(HandleId stream)
{
    Slot *s = slot(stream >= calls::kFirstHandle ? stream : current_context());
    return !s ? nullptr : stream >= calls::kFirstHandle ? &s->moment : &s->legacy;
}

// Idle at that moment or after it.
bool idle_since(HandleId id, uint64_t moment)
{
    const Slot *s = slot(id);
    return s && s->moment.load(std::memory_order_acquire) >= moment;
}

// The question itself was the one call since: had others sent something, it would not be known
// when.
void learn(std::atomic<uint64_t> *moment, uint64_t asked)
{
    if (moment && session()->sent() == asked + 1)
        moment->store(asked + 1, std::memory_order_release);
}

}  // namespace

bool context(HandleId context) { return may_know() && idle_since(context, session()->sent()); }

bool stream(HandleId stream)
{
    if (!may_know()) return false;
    const uint64_t now = session()->sent();
    const Slot *s = slot(stream);
    const std::atomic<uint64_t> *moment = moment_of(stream);
    return (moment && moment->load(std::memory_order_acquire) >= now) ||
           idle_since(s ? s->parent : current_context(), now);
}

bool may_know_events()
{
    return !client_counter(Counter::events_elsewhere).load(std::memory_order_relaxed) && may_know();
}

bool event(HandleId event)
{
    const Slot *e = slot(event);
    if (!e || !may_know_events()) return false;
    const uint64_t recorded = e->moment.load(std::memory_order_acquire);
    if (recorded == kBeingRecorded) return false;
    if (!recorded) return true;  // CUDA: an event that was never recorded is complete
    if (e->done.load(std::memory_order_acquire)) return true;
    const Slot *in = slot(e->recorded_in);
    return (in && in->stamp == e->recorded_stamp && idle_since(e->recorded_in, recorded)) ||
           idle_since(e->parent, recorded);
}

uint64_t moment() { return session() ? session()->sent() : 0; }
void learn_context(HandleId context, uint64_t asked)
{
    if (Slot *s = slot(context)) learn(&s->moment, asked);
}
void learn_stream(HandleId stream, uint64_t asked) { learn(moment_of(stream), asked); }

uint64_t recorded(HandleId event)
{
    const Slot *e = slot(event);
    return e ? e->moment.load(std::memory_order_acquire) : 0;
}

void learn_event(HandleId event, uint64_t recorded)
{
    Slot *e = slot(event);
    if (e && recorded && recorded != kBeingRecorded &&
        e->moment.load(std::memory_order_acquire) == recorded)
        e->done.store(true, std::memory_order_release);
}

void recording(HandleId event)
{
    Slot *e = slot(event);
    if (!e) return;
    e->moment.store(kBeingRecorded, std::memory_order_release);
    e->done.store(false, std::memory_order_release);
}

void recorded_in(HandleId event, HandleId stream)
{
    Slot *e = slot(event);
    if (!e || !session()) return;
    const Slot *s = slot(stream);
    e->recorded_in = stream;
    e->recorded_stamp = s ? s->stamp : 0;
    e->moment.store(session()->sent(), std::memory_order_release);
}

void events_elsewhere()
{
    client_counter(Counter::events_elsewhere).store(1, std::memory_order_relaxed);
}

}  // namespace rgpu::interpose::idle
