// SPDX-License-Identifier: Apache-2.0
// Each event that is polled has a cuEventSynchronize under way that nobody waits for. Other answers
// may tell the program that the event must have been reached, and overtake that one; so "not ready"
// is repeated only while nothing else is heard.
#include "interpose/state/event_watch.h"

#include <map>
#include <memory>
#include <mutex>

#include "interpose/state/client.h"
#include "interpose/state/idle.h"
#include "interpose/state/process.h"
#include "interpose/state/servers.h"

namespace rgpu::interpose::event_watch {

namespace {

// Each is a thread of the server that waits.
constexpr size_t kMostUnderWay = 32;

struct Watched {
    uint64_t recorded = 0;  // the record that is waited for
    uint64_t heard = 0;     // until then the server was known to say "not ready"
    std::unique_ptr<Ahead> reached = std::make_unique<Ahead>();
};

struct Table {
    std::mutex mutex;
    std::map<HandleId, Watched> events;
};

Table &table() { return client_part<EachServer<Table>>(Part::event_watch)(); }

}  // namespace

std::optional<bool> query(HandleId event)
{
    ServerSession *s = session();
    if (!s || !idle::may_know_events()) return std::nullopt;
    Table &t = table();
    std::lock_guard lock(t.mutex);
    const auto it = t.events.find(event);
    if (it == t.events.end()) return std::nullopt;
    Watched &w = it->second;
    s->hear_now();
    const bool reached = s->has_come(*w.reached);
    if (w.recorded != idle::recorded(event)) {  // recorded again: another question
        if (reached) t.events.erase(it);
        return std::nullopt;
    }
    if (!reached) return s->heard() == w.heard ? std::optional(false) : std::nullopt;
    Reply reply;
    const CUresult r = s->take_ahead(*w.reached, reply);
    t.events.erase(it);
    return r ? std::nullopt : std::optional(true);
}

void not_ready(HandleId event, uint64_t recorded, uint64_t heard)
{
    ServerSession *s = session();
    if (!s || every_call_waits() || !idle::may_know_events() || recorded != idle::recorded(event))
        return;
    Table &t = table();
    std::lock_guard lock(t.mutex);
    auto it = t.events.find(event);
    if (it == t.events.end()) {
        if (t.events.size() >= kMostUnderWay) {
            std::erase_if(t.events,
                          [&](const auto &entry) { return s->has_come(*entry.second.reached); });
            if (t.events.size() >= kMostUnderWay) return;
        }
        it = t.events.try_emplace(event).first;
        it->second.recorded = recorded;
        const auto body = [event](wire::Writer &w) { w.value(event); };
        if (!s->ask_ahead(calls::CallId::cuEventSynchronize, current_context(), body,
                          *it->second.reached, 0, News::yes)) {
            t.events.erase(it);
            return;
        }
    }
    it->second.heard = heard + 1;  // the answer itself
}

}  // namespace rgpu::interpose::event_watch
