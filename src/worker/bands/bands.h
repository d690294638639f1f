// SPDX-License-Identifier: Apache-2.0
// Device memory at addresses of our own: cuMemAlloc, cuMemAllocPitch and cuMemAddressReserve answer
// out of a band (wire/bands.h), which is filled with virtual memory.
//
// The layer stands in front of the driver and of the memory cap, which counts the pages as they are
// made. Where the driver does not give the band, or once it is full, calls go on to the driver as
// they come. What a program can ask of such memory is answered as for the driver's own: its range,
// its context, that it ends with that, and handles for other processes (cuIpcGetMemHandle), which
// go through the mailbox.
//
// A part of the band is the client's: it says where its memory lies there, and uses pages that were
// made for it before, which are its credit (placed.h).
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "wire/band.h"
#include "wire/shareable.h"
#include "worker/bands/placed.h"
#include "worker/driver/driver.h"

namespace rgpu::worker {

using wire::Band;

class Bands : private Band::Pages {
public:
    // `name` is for messages.
    Bands(const Driver &real, std::string name) : real(real), name_(std::move(name)) {}

    // Which band is to be used; false where there is no such one, or one is in use already.
    bool choose(uint32_t index);

    // The calls of these names. Any thread, like all here.
    CUresult allocate(CUdeviceptr *, size_t bytes);
    CUresult allocate_pitch(CUdeviceptr *, size_t *pitch, size_t width, size_t height,
                            unsigned element);
    CUresult free(CUdeviceptr);
    // `null_stream` is what a null stream means to the driver's call.
    using FreeInStream = CUresult(CUdeviceptr, CUstream);
    CUresult free_in_stream(CUdeviceptr, CUstream, CUstream null_stream, FreeInStream *by_driver);
    CUresult reserve(CUdeviceptr *, size_t bytes, size_t alignment, CUdeviceptr hint,
                     unsigned long long flags);
    CUresult unreserve(CUdeviceptr, size_t bytes);
    CUresult map(CUdeviceptr, size_t bytes, size_t offset, CUmemGenericAllocationHandle,
                 unsigned long long flags);
    CUresult unmap(CUdeviceptr, size_t bytes);
    CUresult get_ipc_handle(CUipcMemHandle *, CUdeviceptr);
    template <CallId Id> CUresult open_ipc_handle(CUdeviceptr *, CUipcMemHandle, unsigned flags);
    CUresult close_ipc_handle(CUdeviceptr);

    // What the client says of its part of the band. grant() makes pages for so many bytes that the
    // client lacks, and some more; `granted` are the bytes of all of them.
    CUresult grant(CUdevice, uint64_t bytes, uint64_t &begin, uint64_t &granted);
    bool is_gone(CUdeviceptr);  // no memory is there, nor any that is being freed
    // False where no client may say that, and nothing is done; else `r` is the driver's answer.
    // allocate_at() is for the current context.
    bool allocate_at(CUdeviceptr, size_t bytes, CUresult &r);
    bool take_back(CUdevice, uint64_t bytes);
    // The same for memory of pools, which is no context's: the client divides it up. What it gives
    // back nothing uses any more, says the client. take_piece() makes what is too large for credit.
    bool take_pages(CUdevice, CUdeviceptr, size_t bytes, CUresult &r);
    bool give_pages(CUdeviceptr, size_t bytes);
    CUresult take_piece(CUdevice, size_t bytes, CUdeviceptr &);
    // Bytes that are the client's credit on a device.
    uint64_t credit(CUdevice);

    // What lies at an address of the band; nothing where it is none, or the program's own to fill.
    // No bytes: no memory lies there, though its page may be there for others.
    struct Memory {
        CUdeviceptr base = 0;
        size_t bytes = 0;
        CUcontext context = nullptr;
        bool imported = false;
        bool pooled = false;  // a page, or piece, of a pool
    };
    std::optional<Memory> find(CUdeviceptr);

    // Contexts as they come and go: a device that has one reaches all of the band, and memory ends
    // with its context.
    void made(CUcontext, CUdevice);
    void ended(CUcontext);

    // Captures that are under way: waiting for a context would end them.
    void capture_begins(CUstream);
    void capture_ends(CUstream);

    // What is in front of the driver without this layer.
    const Driver real;

private:
    struct Mapping {
        CUmemGenericAllocationHandle handle = 0;
        uint64_t bytes = 0;
    };
    struct Import {
        uint64_t page = 0, bytes = 0;  // where it is mapped, and the whole of it
        CUdeviceptr address = 0;
        uint64_t size = 0;  // what its program asked for
        std::vector<CUmemGenericAllocationHandle> handles;
        unsigned times = 0;
    };
    using ImportName = std::pair<CUcontext, wire::ShareKey>;
    struct Leaving {
        CUevent event = nullptr;
        CUcontext context = nullptr;
        Band::Block block;
    };

    // Pages that are the client's credit, of one device.
    struct Stock {
        std::vector<CUmemGenericAllocationHandle> spare;
        std::set<uint64_t> empty;  // mapped, and nothing lies there
    };

    CUresult put(uint64_t address, uint64_t bytes, int device) override;
    void take(uint64_t address, uint64_t bytes, int device) override;
    CUresult make(CUdevice, uint64_t bytes, CUmemGenericAllocationHandle &) const;
    CUresult map_at(uint64_t address, const Mapping &);
    Mapping unmap_at(uint64_t address);
    CUresult give_access(uint64_t address, uint64_t bytes) const;

    bool begin();
    // Memory of pools has no owner.
    static constexpr uint32_t kNobody = UINT32_MAX;
    uint32_t number_of(CUcontext);
    CUcontext context_of(uint32_t owner) const
    {
        return owner == kNobody ? nullptr : owners_[owner];
    }
    CUresult settle(CUcontext);
    std::optional<Band::Block> block_at(uint64_t address) const;
    std::optional<Band::Block> forget(uint64_t base);
    void remember(const Band::Block &);
    void release(const Band::Block &);
    void poll_leaving();

    bool is_placed(uint64_t address) const { return placed_ && placed_->contains(address); }
    bool is_pooled(uint64_t address) const;
    bool begin_placed();
    CUresult make_pages(Stock &, CUdevice, uint64_t pages) const;
    uint64_t pages_ahead(CUdevice) const;
    CUmemGenericAllocationHandle page_of(Stock &);
    CUresult map_pages(const Placed::Pages &, CUdevice);
    void release_placed(const Band::Block &);
    void note_credit(CUdevice) const;

    CUresult offer_pages(const Band::Block &, const wire::ShareKey &) const;
    void withdraw(const Band::Block &, const wire::ShareKey &) const;
    // The address of memory that is imported already, counted once more; 0 where it is not.
    CUdeviceptr open_again(const ImportName &);
    CUresult import(const ImportName &, const struct IpcName &, bool as_peer, CUdeviceptr *);
    CUresult import_page(const struct Received &, bool as_peer, Import &) const;
    CUresult map_import(Import &);
    void end_import(const Import &);

    const std::string name_;
    std::mutex mutex_;
    uint32_t index_ = 0;
    bool tried_ = false;
    std::unique_ptr<Band> band_;  // null: the driver does not give it, or has not been asked
    std::vector<CUcontext> owners_;
    std::set<std::pair<CUdevice, CUcontext>> contexts_;
    std::map<uint64_t, Mapping> mappings_;                  // by address
    std::map<uint64_t, uint64_t> reserved_, program_maps_;  // the program's own, by address
    std::map<uint64_t, wire::ShareKey> exported_;           // allocations that have a name
    std::map<ImportName, Import> imports_;
    std::vector<Leaving> leaving_;
    std::unique_ptr<Placed> placed_;  // null: the client has no part
    uint64_t placed_begin_ = 0;
    std::map<CUdevice, Stock> stock_;
    std::set<CUstream> captures_;
};

// Whether a device of this driver can have its memory in a band, asking the driver for one.
bool gives_bands(const Driver &, CUdevice);

// Puts the layer in front of the driver. Once; it lives as long as the process, and is bands() from
// now on.
void put_bands_in_front(Driver &, const std::string &name);
// Null where no layer is.
Bands *bands();

}  // namespace rgpu::worker
