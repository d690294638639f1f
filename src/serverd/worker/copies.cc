// Queues of parts, and the waiters that look after them.
#include "serverd/worker/copies.h"

#include "serverd/worker/driver.h"

namespace rgpu::worker {

void Copies::send_front(Queue &q)
{
    while (!q.parts.empty()) {
        CUresult r = DRIVER(cuEventQuery)(q.parts.front().chunk.event);
        if (r == CUDA_ERROR_NOT_READY) return;
        Part p = q.parts.front();
        q.parts.pop_front();
        if (p.last) console_.drain(sender_);  // what was printed before the copy comes before its end
        sender_.data(p.sequence, r, p.chunk.data, r ? 0 : p.bytes, p.last);
        r ? staging_.give(p.chunk) : staging_.give_sent(p.chunk);
    }
}

void Copies::add(uint64_t stream, Part part)
{
    Queue *q;
    {
        std::lock_guard lock(mutex_);
        auto &slot = queues_[stream];
        if (!slot) slot = std::make_unique<Queue>();
        q = slot.get();
    }
    std::lock_guard lock(q->mutex);
    q->parts.push_back(part);
    send_front(*q);
    if (q->parts.empty() || q->watched) return;
    q->watched = true;
    waiters_.run([this, q] { watch(*q); });
}

void Copies::watch(Queue &q)
{
    std::unique_lock lock(q.mutex);
    while (!q.parts.empty()) {
        Chunk front = q.parts.front().chunk;
        lock.unlock();
        DRIVER(cuCtxSetCurrent)(front.context);
        DRIVER(cuEventSynchronize)(front.event);
        lock.lock();
        send_front(q);
    }
    q.watched = false;
}

void Copies::send_finished()
{
    std::lock_guard lock(mutex_);
    for (auto &[stream, q] : queues_) {
        std::lock_guard queue_lock(q->mutex);
        send_front(*q);
    }
}

}  // namespace rgpu::worker
