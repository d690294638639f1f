// SPDX-License-Identifier: Apache-2.0
// Copies to the host under way: for each stream a queue of chunks whose bytes go to the client
// when the GPU has written them, in order.
//
// Of a large copy a few chunks at a time are given to the GPU, and sent, by a thread that looks
// after its stream. Until the last one is given the copy is open: calls of other streams go on
// (overtaking.h), and their answers wait for none of its bytes, as it is not over on the GPU. What
// must come behind it has the rest given at once.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "calls/handles.h"
#include "util/waiters.h"
#include "worker/connection/console.h"
#include "worker/connection/sender.h"
#include "worker/copies/staging.h"

namespace rgpu::worker {

class Copies {
public:
    // Smaller ones are over before a thread has begun.
    static constexpr uint64_t kLarge = 8 * Staging::kChunkBytes;
    // Chunks that a large copy is ahead of the network, and chunks of all such copies together when
    // one's rest is given at once. Both bound pinned memory: kAhead for each copy that is carried
    // out, and kMost, unless none of these moves: then the GPU waits for something that the program
    // has yet to say, which the dispatcher must hear.
    static constexpr size_t kAhead = 2, kMost = Staging::kChunks;
    // How many it is after this one, the only one under way, was given to the GPU: kAhead, so that
    // the GPU copies while one is sent. Where it is over already the driver has most likely copied
    // it on this processor, whose cache holds it until the next one: then it is sent first.
    static size_t ahead(const Chunk &);

    // `large`: staging for large copies, without a limit of its own.
    Copies(Sender &sender, Console &console, Staging &staging, Staging &large, Waiters &waiters)
        : sender_(sender), console_(console), staging_(staging), large_(large), waiters_(waiters)
    {}

    // What tells streams apart: the default stream of each context, too.
    using Key = uint64_t;

    struct Part {
        Chunk chunk;
        uint32_t sequence = 0;
        size_t bytes = 0;
        bool last = false;
        bool waited = false;  // by its caller, and nobody else may look at the bytes before
        uint64_t copy = 0;    // the number of a large copy
        CUresult error = CUDA_SUCCESS;  // instead of bytes
    };
    // A part whose event is recorded, of a stream without open copies. Dispatcher only.
    void add(Key stream, Part);

    struct Copy {
        uint32_t sequence = 0;
        CUcontext context = nullptr;
        CUstream stream = nullptr;
        CUdeviceptr from = 0;
        uint64_t bytes = 0;
    };
    // Opens a large copy. Dispatcher only.
    void open(Key stream, const Copy &);

    bool any_open() const { return open_count_.load() != 0; }
    // Has `then` called behind the stream's last open copy, before anything else is given to the
    // stream; `mark` says what for. False: it has none. Dispatcher only; `then` is called in any
    // thread, the copy's context current.
    bool behind(Key stream, uint32_t mark, std::function<void()> then);
    // The number of the copy behind which something is to be called with that mark; 0: there is
    // none.
    uint64_t behind_what(uint32_t mark);
    // Gives all to the GPU. Dispatcher only.
    void close_all();
    // The numbers of the open copies of which `look` is true. Dispatcher only.
    template <class Look> std::vector<uint64_t> which_open(Look &&look)
    {
        std::vector<uint64_t> numbers;
        std::lock_guard lock(open_mutex_);
        for (const Open &o : open_)
            if (look(o.stream, o.copy)) numbers.push_back(o.number);
        return numbers;
    }
    // Waits until these are closed, and for no other: those may wait for what the program does
    // next. Any thread.
    void wait_closed(const std::vector<uint64_t> &numbers);

    // Sends everything that the GPU has finished of what it was given as a whole. Any thread. An
    // answer that lets the client go on must be sent after this, because the client may then look
    // at the bytes.
    void send_finished() { send_finished(nullptr); }
    // The same for what comes before the last bytes of a copy whose caller waits.
    void before_last();

private:
    struct Queue {
        std::mutex mutex;
        std::condition_variable changed;
        std::deque<Part> parts;
        bool sending = false;        // the one that was the first,
        Part sent;                   // that one
        bool issuing = false;        // someone makes the next part
        bool watched = false;        // a waiter looks after it
        std::deque<uint64_t> rests;  // open copies, of which only the first has parts
    };
    struct Open {
        uint64_t number = 0;
        Key stream = 0;
        Copy copy;          // what is left of it; whoever is `issuing` changes it
        size_t unsent = 0;  // parts; with the queue's mutex
        struct Then {
            uint32_t mark = 0;
            std::function<void()> call;
        };
        std::vector<Then> then;
        size_t ahead = kAhead;  // chunks; changed with the queue's mutex, by whoever is `issuing`
    };
    using Lock = std::unique_lock<std::mutex>;

    Queue &queue(Key stream);
    Open &find(uint64_t number);
    enum class Which { all, closed, closed_unwaited };
    void send_front(Queue &, Lock &, Which);
    void send(const Part &, Queue &);
    void sent(Queue &, const Part &);
    void send_finished(Queue *but_waited_in);
    void look_after(Queue &, Lock &);
    void watch(Queue &);
    bool may_go_ahead(Queue &);
    void issue(Queue &, Lock &);
    void close(Queue &, Open &);
    void close(Queue &);

    Sender &sender_;
    Console &console_;
    Staging &staging_, &large_;
    Waiters &waiters_;
    std::mutex mutex_;  // the map's
    std::map<Key, std::unique_ptr<Queue>> queues_;
    std::atomic<size_t> unsent_{0};  // parts of what was given to the GPU as a whole

    // Taken behind a queue's mutex, never before.
    std::mutex open_mutex_;
    std::condition_variable closed_;
    std::list<Open> open_;  // in their order
    std::atomic<size_t> open_count_{0}, large_parts_{0};
    std::atomic<uint64_t> large_sent_{0};
    uint64_t opened_ = 0;
};

}  // namespace rgpu::worker
