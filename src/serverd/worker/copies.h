// Copies to the host under way: for each stream a queue of chunks whose bytes go to the client
// when the GPU has written them, in order.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <mutex>

#include "serverd/worker/console.h"
#include "serverd/worker/sender.h"
#include "serverd/worker/staging.h"
#include "util/waiters.h"

namespace rgpu::worker {

class Copies {
public:
    Copies(Sender &sender, Console &console, Staging &staging, Waiters &waiters)
        : sender_(sender), console_(console), staging_(staging), waiters_(waiters) {}

    struct Part {
        Chunk chunk;
        uint32_t sequence = 0;
        size_t bytes = 0;
        bool last = false;
    };
    // A part whose event is recorded. `stream` tells streams apart. Dispatcher only.
    void add(uint64_t stream, Part);

    // Sends everything that the GPU has finished. Any thread. An answer that lets the client go on must be
    // sent after this, because the client may then look at the bytes.
    void send_finished();

private:
    struct Queue {
        std::mutex mutex;
        std::deque<Part> parts;
        bool watched = false;  // a waiter looks after it
    };
    // With the queue's mutex held: sends finished parts from the front.
    void send_front(Queue &);
    void watch(Queue &);

    Sender &sender_;
    Console &console_;
    Staging &staging_;
    Waiters &waiters_;
    std::mutex mutex_;
    std::map<uint64_t, std::unique_ptr<Queue>> queues_;
};

}  // namespace rgpu::worker
