// SPDX-License-Identifier: Apache-2.0
// Queues of parts, and the waiters that look after them.
#include "worker/copies/copies.h"

#include <algorithm>

#include "worker/driver/driver.h"

namespace rgpu::worker {

Copies::Queue &Copies::queue(Key stream)
{
    std::lock_guard lock(mutex_);
    auto &slot = queues_[stream];
    if (!slot) slot = std::make_unique<Queue>();
    return *slot;
}

// An open copy stays where it is until it is closed, which whoever is `issuing` does.
Copies::Open &Copies::find(uint64_t number)
{
    std::lock_guard lock(open_mutex_);
    return *std::find_if(open_.begin(), open_.end(),
                         [&](const Open &o) { return o.number == number; });
}

// --- sending

// With the queue's mutex held, but while it sends: finished parts from the front.
void Copies::send_front(Queue &q, Lock &lock, Which which)
{
    const auto leaves = [&](const Part &p) {
        const bool is_open = p.copy && !q.rests.empty() && p.copy == q.rests.front();
        return (which != Which::all && is_open) || (which == Which::closed_unwaited && p.waited);
    };
    for (;;) {
        if (q.sending) {
            if (leaves(q.sent)) return;
            q.changed.wait(lock);
            continue;
        }
        if (q.parts.empty() || leaves(q.parts.front())) return;
        Part p = q.parts.front();
        if (!p.error) p.error = DRIVER(cuEventQuery)(p.chunk.event);
        if (p.error == CUDA_ERROR_NOT_READY) return;
        q.parts.pop_front();
        q.sending = true, q.sent = p;
        lock.unlock();
        send(p, q);
        lock.lock();
        sent(q, p);
    }
}

void Copies::send(const Part &p, Queue &q)
{
    if (p.last) console_.drain(sender_);  // what was printed before the copy comes before its end
    if (p.last && p.waited && unsent_ > 1) send_finished(&q);
    sender_.data(p.sequence, p.error, p.chunk.data, p.error ? 0 : p.bytes, p.last);
    Staging &staging = p.copy ? large_ : staging_;
    if (p.chunk.data) p.error ? staging.give(p.chunk) : staging.give_sent(p.chunk);
}

void Copies::sent(Queue &q, const Part &p)
{
    q.sending = false;
    if (p.copy) large_parts_--, large_sent_++;
    if (p.copy && !q.rests.empty() && p.copy == q.rests.front())
        find(p.copy).unsent--;
    else
        unsent_--;
    q.changed.notify_all();
}

void Copies::add(Key stream, Part part)
{
    Queue &q = queue(stream);
    Lock lock(q.mutex);
    unsent_++;
    q.parts.push_back(part);
    send_front(q, lock, Which::closed);
    if (!q.parts.empty()) look_after(q, lock);
}

// Who sends in one queue and looks at the others waits there for nobody who may do the same.
void Copies::send_finished(Queue *but_waited_in)
{
    if (!unsent_) return;
    std::vector<Queue *> all;
    {
        std::lock_guard lock(mutex_);
        for (auto &[stream, q] : queues_) all.push_back(q.get());
    }
    for (Queue *q : all) {
        if (q == but_waited_in) continue;
        Lock lock(q->mutex);
        send_front(*q, lock, but_waited_in ? Which::closed_unwaited : Which::closed);
    }
}

void Copies::before_last()
{
    static Queue none;
    console_.drain(sender_);  // what was printed before the copy comes before its end
    send_finished(&none);
}

// --- large copies

size_t Copies::ahead(const Chunk &only)
{
    return DRIVER(cuEventQuery)(only.event) == CUDA_SUCCESS ? 1 : kAhead;
}

void Copies::open(Key stream, const Copy &copy)
{
    Queue &q = queue(stream);
    Lock lock(q.mutex);
    {
        std::lock_guard open_lock(open_mutex_);
        open_.push_back({++opened_, stream, copy, 0, {}});
        open_count_++;
    }
    q.rests.push_back(opened_);
    q.changed.notify_all();
    look_after(q, lock);
}

// The last chunk is given when no other is left to be sent: from then on answers must wait for the
// copy's bytes.
bool Copies::may_go_ahead(Queue &q)
{
    if (q.rests.empty() || q.issuing) return false;
    const Open &o = find(q.rests.front());
    const bool is_last = o.copy.bytes <= Staging::kChunkBytes;
    return q.parts.size() + q.sending < (is_last ? 1 : o.ahead);
}

// With the queue's mutex held, but while it does so: gives the next part of the first open copy to
// the GPU.
void Copies::issue(Queue &q, Lock &lock)
{
    q.issuing = true;
    Open &o = find(q.rests.front());
    Copy &c = o.copy;
    const bool only = q.parts.empty() && !q.sending;
    lock.unlock();
    Part part;
    part.sequence = c.sequence;
    part.copy = o.number;
    part.error = DRIVER(cuCtxSetCurrent)(c.context);
    if (!part.error) part.chunk = large_.take_to_send(c.context, part.error);
    part.bytes = std::min<uint64_t>(c.bytes, part.chunk.bytes);
    if (!part.error)
        part.error = DRIVER(cuMemcpyDtoHAsync_v2)(part.chunk.data, c.from, part.bytes, c.stream);
    if (!part.error) part.error = DRIVER(cuEventRecord)(part.chunk.event, c.stream);
    const size_t most = only && !part.error ? ahead(part.chunk) : o.ahead;
    c.from += part.bytes, c.bytes -= part.bytes;
    // One that fails half-way is ended by a frame with the error and no bytes.
    part.last = !c.bytes || part.error;
    lock.lock();
    q.parts.push_back(part);
    o.unsent++, large_parts_++, o.ahead = most;
    if (part.last) close(q, o);
    q.issuing = false;
    q.changed.notify_all();
}

// With the queue's mutex held.
void Copies::close(Queue &q, Open &o)
{
    unsent_ += o.unsent;
    q.rests.pop_front();
    std::lock_guard lock(open_mutex_);
    for (Open::Then &then : o.then) then.call();
    open_.remove_if([&](const Open &other) { return &other == &o; });
    open_count_--;
    closed_.notify_all();
}

void Copies::look_after(Queue &q, Lock &)
{
    if (q.watched) return;
    q.watched = true;
    waiters_.run([this, &q] { watch(q); });
}

void Copies::watch(Queue &q)
{
    Lock lock(q.mutex);
    while (!q.parts.empty() || !q.rests.empty()) {
        if (may_go_ahead(q)) {
            issue(q, lock);
        } else if (q.parts.empty()) {
            q.changed.wait(lock);
        } else {
            const Chunk front = q.parts.front().chunk;
            lock.unlock();
            DRIVER(cuCtxSetCurrent)(front.context);
            if (front.event) DRIVER(cuEventSynchronize)(front.event);
            lock.lock();
            send_front(q, lock, Which::all);
        }
    }
    q.watched = false;
}

void Copies::close(Queue &q)
{
    Lock lock(q.mutex);
    for (bool stalled = false; !q.rests.empty();) {
        const bool room = stalled || large_parts_ < kMost || (q.parts.empty() && !q.sending);
        if (room && !q.issuing) {
            issue(q, lock);
            continue;
        }
        const uint64_t sent_before = large_sent_;
        const bool over = q.changed.wait_for(lock, Staging::kStall) == std::cv_status::timeout;
        stalled |= over && !q.sending && !q.issuing && large_sent_ == sent_before;
    }
}

void Copies::close_all()
{
    for (;;) {
        Key stream;
        {
            std::lock_guard lock(open_mutex_);
            if (open_.empty()) return;
            stream = open_.front().stream;
        }
        close(queue(stream));
    }
}

bool Copies::behind(Key stream, uint32_t mark, std::function<void()> then)
{
    std::lock_guard lock(open_mutex_);
    const auto last = std::find_if(open_.rbegin(), open_.rend(),
                                   [&](const Open &o) { return o.stream == stream; });
    if (last == open_.rend()) return false;
    last->then.push_back({mark, std::move(then)});
    return true;
}

uint64_t Copies::behind_what(uint32_t mark)
{
    std::lock_guard lock(open_mutex_);
    const auto last = std::find_if(open_.rbegin(), open_.rend(), [&](const Open &o) {
        return std::any_of(o.then.begin(), o.then.end(),
                           [&](const Open::Then &t) { return t.mark == mark; });
    });
    return last == open_.rend() ? 0 : last->number;
}

void Copies::wait_closed(const std::vector<uint64_t> &numbers)
{
    if (numbers.empty()) return;
    std::unique_lock lock(open_mutex_);
    closed_.wait(lock, [&] {
        return std::none_of(open_.begin(), open_.end(), [&](const Open &o) {
            return std::find(numbers.begin(), numbers.end(), o.number) != numbers.end();
        });
    });
}

}  // namespace rgpu::worker
