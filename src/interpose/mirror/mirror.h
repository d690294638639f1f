// SPDX-License-Identifier: Apache-2.0
// Host memory that kernels touch: managed, mapped pinned and registered memory, and __managed__
// variables.
//
// The program's memory and the device's are two; each side keeps a twin, the last content that both
// agreed on. Before the device gets work, the bytes that the program changed go there; when the
// program learns that work is done, the bytes that the device changed come back (wire/diff.h). Page
// protection would find changes faster, but system calls fail with EFAULT on protected pages, and
// programs read files into managed memory.
//
// Managed and pinned memory has the same address on both sides: the server reserves addresses and
// the client maps memory there. Pinned memory is mirrored from the first sign that a kernel may use
// it; memory that is only copied is as it would be without all this. Registered memory has a mirror
// at other addresses.
//
// All functions: any thread. Two locks inside: `order`, held while device work is posted and while
// bytes travel, and below it one for the tables.
#pragma once

#include <atomic>
#include <initializer_list>
#include <mutex>
#include <optional>
#include <vector>

#include "calls/cuda_api.h"
#include "interpose/state/client.h"
#include "interpose/state/handles.h"
#include "interpose/state/ranges.h"

namespace rgpu::interpose::mirror {

enum class Kind : uint8_t { managed, pinned, registered, variable };

struct Block {
    Kind kind = Kind::pinned;
    bool mirrored = false;   // the device has memory behind it
    bool any_time = false;   // the program may write it while the device works
    bool read_only = false;  // the device does not write it
    bool piece = false;      // mapped by cuMemMap: an array may go on in the next piece
    CUdeviceptr device = 0;  // its address for kernels
    uintptr_t host = 0;      // and for the program
    size_t bytes = 0;
    uint8_t *twin = nullptr;  // when mirrored
    HandleId context = 0;
    HandleId owner = 0;  // module or library of a variable
};

// Whether calls must look for addresses that make a block mirrored, for there is one or a
// registration; whether anything is mirrored.
inline bool any() { return client_counter(Counter::blocks).load(std::memory_order_relaxed) != 0; }
inline bool active()
{
    return client_counter(Counter::mirrored_blocks).load(std::memory_order_relaxed) != 0;
}

// --- blocks

// New memory, managed (shared at once) or pinned. NOT_SUPPORTED where the server's driver cannot
// place memory.
CUresult allocate(Kind, size_t bytes, CUdeviceptr &address);
// Pinned memory at addresses that the program has reserved: these bytes of a file in memory. It
// stays the truth of them when the block ends.
CUresult map(CUdeviceptr address, size_t bytes, int file, size_t offset);
// Ends the block at this device address. The caller has waited for work that may use it.
void give_back(CUdeviceptr);
// Makes the block that holds the address mirrored, if one does.
CUresult share(CUdeviceptr);
// The kernel's address of registered memory (given as it was registered).
CUresult mirror_registered(const HostRange &, CUdeviceptr &device);
// One registration more (1) or less (-1); the mirror, if there is one, ends.
void note_registration(uintptr_t host, int change);
// A managed variable that the server's driver placed at `address`: appears there with its content.
CUresult adopt(CUdeviceptr address, size_t bytes, HandleId owner);
// The variables of a module or library, or all managed memory of a context, that has ended.
void forget_owner(HandleId);
void forget_context(HandleId);

// The block that holds this device address, of the server that calls go to or else of another.
std::optional<Block> find(CUdeviceptr);
// NOT_SUPPORTED, and a line on standard error, for memory that is shared with another server's
// devices.
CUresult must_be_here(CUdeviceptr);
// Whether another server's blocks lie, or may come to lie, there.
bool addresses_elsewhere(CUdeviceptr base, size_t bytes);
// The device address of memory of the program that is mirrored.
std::optional<CUdeviceptr> device_address(const void *);
// Whether the program may write it while the device works (cuStreamAttachMemAsync).
void set_any_time(CUdeviceptr, bool);

// Looks for addresses in a kernel's parameters that make blocks mirrored. Where one must be
// replaced, `data` points to a changed copy in `room` afterwards.
CUresult look_at_parameters(uint8_t *&data, size_t bytes, std::vector<uint8_t> &room);

// --- order

// Work for the device: sends what the program changed, and holds the order of things until it ends,
// while the call posts its frame.
class Work {
public:
    // `stream` is a handle's number. With `named`: only if one of these addresses is mirrored.
    CUresult begin(HandleId stream);
    CUresult begin(HandleId stream, std::initializer_list<CUdeviceptr> named);
    CUresult begin_in(CUstream stream, std::initializer_list<CUdeviceptr> named);

    // The work writes this memory as one value that the program may look for; or waits until the
    // program has written one (cuStreamWaitValue's condition). Nothing where nothing is mirrored.
    void flag(CUdeviceptr address, unsigned bytes);
    CUresult flag(CUdeviceptr address, unsigned bytes, uint64_t value, unsigned how);

private:
    std::unique_lock<std::mutex> order_;
    uint64_t stream_ = 0;
};

// For work that only reads what is named: sends what the program changed.
CUresult before_read(CUdeviceptr named);

// mark() before a call that waits, one of the others after it succeeded: fetches what the device
// changed.
uint64_t mark();
CUresult reached_everything(uint64_t mark);
CUresult reached_stream(uint64_t mark, HandleId stream);
CUresult reached_event(uint64_t mark, HandleId event);
void note_event(CUevent, CUstream);
// Around a host function: what the device changed before it, what the program changed in it.
CUresult before_host_function();
CUresult after_host_function();

}  // namespace rgpu::interpose::mirror
