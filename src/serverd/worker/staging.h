// Pinned host buffers through which copies go: a bounded number of equal chunks.
//
// take() waits for a free chunk, so that memory stays bounded however fast a client posts.
#pragma once

#include <condition_variable>
#include <mutex>
#include <vector>

#include "calls/cuda_api.h"

namespace rgpu::worker {

struct Chunk {
    void *data = nullptr;
    CUevent event = nullptr;      // recorded behind the copy that uses the chunk
    CUcontext context = nullptr;  // that made the event
    bool pinned = false;          // the memory itself is the process's, and outlives every context
};

class Staging {
public:
    static constexpr size_t kChunkBytes = 1 << 20;
    static constexpr size_t kChunks = 64;

    // A chunk, its event made in the current context `context`. Null data: no memory. Dispatcher only.
    Chunk take(CUcontext context, CUresult &result);
    // For the next one. Any thread.
    void give(Chunk);
    // Gives it back when its event is reached: kept until a later take() finds it done. Dispatcher only.
    void give_later(Chunk c) { busy_.push_back(c); }
    // Before a context ends, with its work done: what it made for chunks ends with it. Dispatcher only.
    void forget(CUcontext);

private:
    bool collect(bool wait);

    std::mutex mutex_;
    std::condition_variable given_;
    std::vector<Chunk> free_;
    std::vector<Chunk> busy_;  // copies to the device
    size_t made_ = 0;
};

}  // namespace rgpu::worker
