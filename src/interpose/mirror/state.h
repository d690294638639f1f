// SPDX-License-Identifier: Apache-2.0
// What is behind mirror.h: for its own files only.
#pragma once

#include <map>
#include <optional>
#include <shared_mutex>

#include "interpose/link/server_session.h"
#include "interpose/mirror/mirror.h"
#include "wire/mirror.h"

namespace rgpu::interpose::mirror {

// Addresses that the server reserved: memory of one block, or of many small ones.
struct Segment {
    uint64_t bytes = 0;
    Kind kind = Kind::pinned;
    CUdevice device = 0;
    uint8_t *twin = nullptr;             // null: the device has no memory there yet
    bool of_program = false;             // the program reserved the addresses, and they stay
    uint64_t used = 0;                   // bytes of blocks
    std::map<uint64_t, uint64_t> holes;  // address -> bytes
};

// What is compared and sent together: a mirrored block, or several that lie close in one segment.
struct Span {
    CUdeviceptr device = 0;
    uintptr_t host = 0;
    uint64_t bytes = 0;
    uint8_t *twin = nullptr;
    Kind kind = Kind::managed;
    bool any_time = false, read_only = false;
};

// Memory that a stream waits for or writes: its bytes always travel as one, behind all others.
struct Flag {
    struct Wait {
        unsigned bytes = 0, how = 0;
        uint64_t value = 0;
        HandleId context = 0;
        uint64_t stream = 0, work = 0;  // as in Mirror::busy
    };
    unsigned bytes = 0;  // 4 or 8
    std::vector<Wait> waits;
};

// Changed bytes that the twin has, and that are still to be sent: the next push begins with them.
struct Unsent {
    wire::MirroredRange range;
    std::vector<uint8_t> diff;
};

struct Mirror {
    std::mutex order;
    // Guarded by `order`: how far the device may be.
    struct Busy {
        HandleId context = 0;
        uint64_t last = 0;  // number of its newest work
    };
    struct Recorded {
        uint64_t stream = 0, last = 0;
    };
    uint64_t works = 0;                     // numbers work
    std::map<uint64_t, Busy> busy;          // by stream_key()
    std::map<HandleId, Recorded> recorded;  // events
    std::vector<uint8_t> window;            // what was read of registered memory
    std::vector<uint8_t> diff;              // of a push
    std::optional<Unsent> unsent;           // where one failed
    bool device_wrote = false;              // perhaps, since the last pull
    HandleId last_context = 0;              // of the newest work
    unsigned writers = 0;  // threads that may write managed memory now, see may_write()
    std::map<CUdeviceptr, Flag> flags;  // in blocks that are there
    bool looking = false;               // a thread looks for what streams wait for
    bool new_waits = false;             // since its last look

    std::shared_mutex tables;  // taken last
    std::map<uint64_t, Segment> segments;
    std::map<uint64_t, Block> blocks;  // by device address
    std::vector<Span> spans;  // of them, by device address; made anew when they have changed
    bool spans_known = false;
    std::map<uintptr_t, CUdeviceptr> mirrors;     // registered memory's blocks, by its own address
    std::map<uint64_t, unsigned> variable_pages;  // mapped for variables: how many lie there
};

Mirror &state();

// With `order` held: everything that is mirrored.
const std::vector<Span> &spans(Mirror &);

// With `order` held: whether the calling thread may write managed memory from now on. It may after
// it waited for the device and until it gives it work: what concurrentManagedAccess = 0 asks of
// programs, thread by thread.
void may_write(Mirror &, bool);

// With `order` held.
CUresult push(Mirror &);
CUresult pull(Mirror &);
// The flag's value in the program's memory; false when that is gone.
bool read_flag(Mirror &, CUdeviceptr, unsigned bytes, uint64_t &value);
// Whether a stream waits for the program to write something.
bool any_wait(const Mirror &);

// Work that may use memory at any time is under way from now on (watch.cc).
void arm_watch();

// The context that bytes travel in: the calling thread's, or where there is none the one that work
// was given to.
HandleId travel_context(Mirror &);

}  // namespace rgpu::interpose::mirror
