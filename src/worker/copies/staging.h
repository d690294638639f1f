// SPDX-License-Identifier: Apache-2.0
// Pinned host buffers through which copies go: a bounded number of equal chunks, and the
// transport's places, where it has any.
//
// take() waits for a free chunk, so that memory stays bounded however fast a client posts. Where
// none comes free for kStall the GPU waits for something that the program has yet to say (a host
// function, a value), behind the bytes that are taken off the wire: then more are made, up to
// kStalledChunks. Dispatcher only, where nothing else
// is said; where no chunk is ever given later, as for long copies, any thread may take and give.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <vector>

#include "calls/cuda_api.h"
#include "net/transport/transport.h"

namespace rgpu::worker {

struct Chunk {
    void *data = nullptr;
    CUevent event = nullptr;      // recorded behind the copy that uses the chunk
    CUcontext context = nullptr;  // that made the event
    bool pinned = false;          // the memory itself is the process's, and outlives every context
    size_t bytes = 0;             // of the memory
    bool reserved = false;        // a place of the transport's, to be sent from
    net::Lent lent;               // with data: bytes in a place of the client's, to be given back
};

class Staging {
public:
    // Small enough that the cache of a processor holds what the driver copies and the kernel sends,
    // or the other way round, one after the other.
    static constexpr size_t kChunkBytes = 512 << 10;
    static constexpr size_t kChunks = 128, kStalledChunks = 8192;
    static constexpr std::chrono::milliseconds kStall{50};
    // Its users bound what they take.
    static constexpr size_t kNoLimit = SIZE_MAX;

    explicit Staging(size_t most = kChunks) : most_(most) {}

    // A chunk, its event made in the current context `context`. Null data: no memory.
    Chunk take(CUcontext context, CUresult &result);
    // The same for bytes that the client has put into shared memory. With an error the chunk has no
    // event; it is to be given up all the same.
    Chunk around(const net::Lent &lent, CUcontext context, CUresult &result);
    // One to send from: a place of the transport's if it has any, where it waits for the client to
    // return one.
    Chunk take_to_send(CUcontext context, CUresult &result);
    // For the next one. Any thread.
    void give(Chunk);
    // A chunk that was sent: a place is the transport's now. Any thread.
    void give_sent(const Chunk &);
    // Gives it back when its event is reached: kept until a later take() finds it done.
    void give_later(Chunk c) { busy_.push_back(c); }
    // What no copy uses after all.
    void give_up(const Chunk &c) { free(c); }
    // Gives those back whose turn has come.
    void give_done();
    // Before a context ends, with its work done: what it made for chunks ends with it.
    void forget(CUcontext);

    // Places are this transport's, from now on.
    void use(net::Transport &transport) { transport_ = &transport; }

private:
    bool collect(bool wait);
    bool one_comes_free();
    void free(const Chunk &);
    void prepare(Chunk &, CUcontext context, CUresult &result);
    Chunk prepared_place(const Chunk &fresh, CUcontext context, CUresult &result);
    void idle(const void *place);
    static void clear(Chunk &, CUcontext);

    const size_t most_;
    std::mutex mutex_;
    std::condition_variable given_;
    std::vector<Chunk> free_;
    std::deque<Chunk> busy_;  // copies to the device
    size_t made_ = 0;
    bool stalled_ = false;  // none came free for kStall, nor since

    struct PinnedChunk {
        Chunk chunk;    // with its event, and pinned
        int users = 0;  // copies under way
    };
    net::Transport *transport_ = nullptr;
    std::map<const void *, PinnedChunk> places_;
};

}  // namespace rgpu::worker
