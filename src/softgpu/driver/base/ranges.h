// SPDX-License-Identifier: Apache-2.0
// Every stretch of memory that the driver knows: device allocations, pinned and managed host
// memory. What an address means, and whether a call may touch it, is decided here.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <shared_mutex>
#include <vector>

namespace rgpu::softgpu::driver {

class Context;
class Pool;

enum class Memory : uint8_t {
    device,      // cuMemAlloc and the like
    variable,    // a module's global variable
    mapped,      // cuMemMap: of no context; copies may reach from one into the next
    graph,       // of a graph's allocation nodes
    imported,    // cuIpcOpenMemHandle: another process' memory
    managed,     // cuMemAllocManaged
    pinned,      // cuMemHostAlloc
    registered,  // cuMemHostRegister: the caller's own
};

struct Range {
    uint64_t base = 0, bytes = 0;
    Memory memory = Memory::device;
    int device = 0;              // index in the driver's list
    Context *context = nullptr;  // that made it; null for what belongs to no context
    unsigned flags = 0;          // as given when it was made
    uint64_t id = 0;             // CU_POINTER_ATTRIBUTE_BUFFER_ID
    std::shared_ptr<Pool> pool;  // stream-ordered allocation
    uint64_t mapped_base = 0, mapped_bytes = 0;  // imported: the pages that hold it

    bool writable = true;
    bool of_host = false;      // mapped: memory of the host
    bool sync_memops = false;  // CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, as it was set

    bool on_device() const { return memory <= Memory::managed && !of_host; }
};

// Any thread.
class Ranges {
public:
    // False when it overlaps a known one. Sets the id.
    bool add(Range);
    std::optional<Range> find(uint64_t address) const;
    // The range that starts at `base`, taken out.
    std::optional<Range> remove(uint64_t base);
    // True when [address, address + bytes) lies in one known range that may be written, if `write`.
    // No bytes lie anywhere.
    bool contains(uint64_t address, uint64_t bytes, bool write = false) const;
    // False where no range holds the address.
    bool set_sync_memops(uint64_t address, bool value);
    // Takes out all of a context.
    std::vector<Range> remove_all(const Context *);

private:
    mutable std::shared_mutex mutex_;
    std::map<uint64_t, Range> ranges_;
    uint64_t next_id_ = 1;
};

}  // namespace rgpu::softgpu::driver
