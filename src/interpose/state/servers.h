// SPDX-License-Identifier: Apache-2.0
// The servers of a lease that spans several, and which of them a call is for.
//
// Each server has a session, a connection to a worker of its own. A call goes to the server of the
// calling thread's current context, or of the object, device or address that it names
// (span/route.h): that is `here`. Handles are one table for all, with the server in each slot;
// numbers that a server gives are moved to a range of its own when they come (handles.h). Devices
// are 0..n-1 for the program in the lease's order, and the server's own numbers on the wire.
//
// With one server nothing of this is done: spanning() is false, here() is 0, and an At is the
// context alone. Any thread, like all here.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <vector>

#include "calls/cuda_api.h"
#include "interpose/link/server_session.h"
#include "interpose/state/client.h"
#include "interpose/state/contexts.h"
#include "interpose/state/handles.h"

namespace rgpu::interpose {

inline constexpr size_t kMostServers = 32;

// Whether the lease names several servers; known once the program is connected.
inline bool spanning()
{
    return client_counter(Counter::several_servers).load(std::memory_order_relaxed);
}

// Where a device of the program is.
struct ProgramDevice {
    unsigned server = 0;
    CUdevice number = 0;  // its own number there
};

// Once, before the first call: a session for each server, and, of several, the program's devices.
// The sessions live as long as the process.
void set_servers(std::vector<ServerSession *> sessions, std::vector<ProgramDevice> devices);
// Calls may be made from now on.
void set_initialized();
// In the child of a fork: none any more. Takes no lock.
void forget_servers();

// The session after set_initialized(), or null before; of several the one that the calling thread's
// calls go to.
ServerSession *session();
// Those of all servers, as soon as there are any.
const std::vector<ServerSession *> &all_sessions();

unsigned server_count();
ServerSession *session_at(unsigned server);
const std::vector<ProgramDevice> &program_devices();

// How many devices the program has, 0 before set_initialized().
int device_count();
// The snapshot of device `d`, or null when there is no such device.
const wire::DeviceSnapshot *device(CUdevice d);

// The server that the calling thread's calls go to now: without a context the first device's.
unsigned here();
// Whether an object is here, or everywhere.
bool is_here(HandleId);
// The context that an object is of, as far as the client knows; 0 for none.
HandleId context_of(HandleId);
// The server of a device that there is.
unsigned server_of(CUdevice);

// A device's number on the wire, -1 for one that is not here; and what such a number stands for.
CUdevice to_wire(CUdevice);
CUdevice from_wire(CUdevice);

// Structs that name devices, as they go out and come in. All others are as they are.
template <class T> inline constexpr bool kNamesDevice = false;
#define RGPU_NAMES_DEVICE(T) \
    template <> inline constexpr bool kNamesDevice<T> = true; \
    void renumber(T &, CUdevice (*)(CUdevice));
RGPU_NAMES_DEVICE(CUmemLocation)
RGPU_NAMES_DEVICE(CUmemAllocationProp)
RGPU_NAMES_DEVICE(CUmemAccessDesc)
RGPU_NAMES_DEVICE(CUmemPoolProps)
#undef RGPU_NAMES_DEVICE
template <class T> T for_wire(T value)
{
    if constexpr (kNamesDevice<T>)
        if (spanning()) renumber(value, to_wire);
    return value;
}
template <class T> T for_program(T value)
{
    if constexpr (kNamesDevice<T>)
        if (spanning()) renumber(value, from_wire);
    return value;
}

// While one lives, the calling thread's calls go to this server. With a context, that is the
// thread's current one, too.
class At {
public:
    At() = default;
    explicit At(unsigned server, HandleId context = calls::kNoHandle) { go(server, context); }
    ~At();
    At(const At &) = delete;
    At &operator=(const At &) = delete;
    void go(unsigned server, HandleId context = calls::kNoHandle);

private:
    int before_ = -1;
    bool gone_ = false, pushed_ = false;
};

// What there is once for each server.
template <class T> class EachServer {
public:
    T &operator()() { return of_[here()]; }
    T &at(unsigned server) { return of_[server]; }

private:
    std::array<T, kMostServers> of_;
};

}  // namespace rgpu::interpose
