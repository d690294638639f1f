// Host functions and stream callbacks: they run here, in the program, when the server's stream gets to them.
//
// The server says with a callback frame that a stream has arrived; a thread of ours runs the
// program's function and posts that it is done; the stream goes on. Functions of different streams do not wait for
// each other.
#pragma once

#include <cstdint>

namespace rgpu::interpose {

// The first word of the body of a cuLaunchHostFunc frame: what it says.
enum class CallbackStep : uint32_t { enqueue, done };

// A callback frame came: its function is to run. Called by whichever thread reads, which it does not hold up.
void callback_due(uint64_t token, uint32_t status);

}  // namespace rgpu::interpose
