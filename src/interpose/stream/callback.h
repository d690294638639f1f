// SPDX-License-Identifier: Apache-2.0
// Host functions and stream callbacks: they run here, in the program, when the server's stream gets
// to them.
//
// The server says with a callback frame that a stream has arrived; a thread of ours runs the
// program's function and posts that it is done; the stream goes on. Functions of different streams
// do not wait for each other.
#pragma once

#include <cstdint>

#include <functional>

#include "calls/cuda_api.h"
#include "interpose/link/server_session.h"

namespace rgpu::interpose {

// A callback frame came: its function is to run. For ServerSession::expect_callbacks().
void callback_due(ServerSession &, uint64_t token, uint32_t status);

// CUDA_SUCCESS where a function that is put into a stream now would be called: there is a thread
// for it. Else what the call answers.
CUresult may_call_back(ServerSession &);

// Whether functions of the program are in streams that have not been there and back yet.
bool any_function_under_way();
// ... or one of ours, or one that was put into a graph.
bool any_function_to_come();

// Whether all frames that one thread sends in its lifetime come where no stream stands at a
// function, of the program's or ours, nor comes to one. Else what waits for the GPU on the server
// waits in another thread there, and later frames overtake it.
class NoFunctions {
public:
    NoFunctions();
    // After the frames.
    bool held() const;

private:
    uint64_t begun_;
    bool none_;
};

// Puts `function` into the stream as cuLaunchHostFunc does.
CUresult call_in_stream(CUstream, CUhostFn function, void *data);

// The same for the client's own ends: `job` may wait, and call the server. It is called with an
// error, too, when the stream failed.
CUresult call_in_stream(CUstream, std::function<void(CUresult)> job);

// The token that graphs' nodes have for this function and its argument; a node may call it any
// number of times.
uint64_t graph_function(CUhostFn function, void *data);
// What such a token stands for; false when it is none.
bool find_graph_function(uint64_t token, CUhostFn &function, void *&data);
// False as long as no graph calls a host function.
bool any_graph_function();
// What the functions of graphs' nodes are run between, in the thread that runs them
// (launch_plan.h). From now on.
void set_around_graph_functions(void (*before)(uint64_t token), void (*after)(uint64_t token));

}  // namespace rgpu::interpose
