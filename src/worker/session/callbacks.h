// SPDX-License-Identifier: Apache-2.0
// Host functions in streams: the driver's callback waits here until the client has run its own.
#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

#include "calls/cuda_api.h"
#include "worker/connection/sender.h"
#include "worker/limits/turns.h"

namespace rgpu::worker {

class Callbacks {
public:
    // The client hears through `sender` which function its stream stands at, after `send_past` has
    // sent all that the client may look at then.
    Callbacks(Turns &turns, Sender &sender, std::function<void()> send_past)
        : turns_(turns), sender_(sender), send_past_(std::move(send_past))
    {}

    // Puts a host function into the stream. Dispatcher only.
    CUresult enqueue(CUstream, uint64_t token);
    // The client has run it. False for a token that is not waiting.
    bool done(uint64_t token);
    // Whether a stream stands, or will stand, at a host function: then what waits for that stream
    // must not be the dispatcher, which takes the word that it is done.
    bool pending();
    // The same for streams that stand at one of which that word is still to come.
    bool waits_for_client();
    // Whether the client has a function to run: one that is in a stream, or a graph's that a stream
    // stands at.
    bool any_to_run();
    // Whether there ever was one. Dispatcher only.
    bool any() const { return any_; }

    // Waits until a stream stands at a function that the client is to run: the context that was
    // current when the client named it, or null. Any thread.
    CUcontext wait_until_one_stands();

    // Graphs' host nodes call graph_reached() with what graph_function() gives for the client's
    // token, any number of times; that lives as long as the session.
    void *graph_function(uint64_t token);
    static uint64_t token_of(const void *graph_function);
    static void CUDA_CB graph_reached(void *graph_function);
    // Puts such a function into a stream that is being captured. Dispatcher only.
    CUresult capture(CUstream, uint64_t token);

private:
    struct Gate {
        Callbacks *all = nullptr;
        uint64_t token = 0;
        CUcontext context = nullptr;
        bool reached = false, open = false;
    };
    static void reached(void *gate);
    // With the lock held: whether a gate is shut, and the context of a function that a stream
    // stands at.
    bool any_shut() const;
    std::optional<CUcontext> standing() const;

    Turns &turns_;
    Sender &sender_;
    const std::function<void()> send_past_;
    std::mutex mutex_;
    std::condition_variable opened_, stopped_;
    std::map<uint64_t, std::unique_ptr<Gate>> gates_;
    bool any_ = false;

    struct GraphFunction {
        Callbacks *all = nullptr;
        uint64_t token = 0;
        CUcontext context = nullptr;
        size_t reached = 0;  // nodes that wait
        size_t done = 0;     // times that the client has run it and no node has gone on yet
    };
    std::map<uint64_t, std::unique_ptr<GraphFunction>> graphs_;
};

}  // namespace rgpu::worker
