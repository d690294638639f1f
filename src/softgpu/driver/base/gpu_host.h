// SPDX-License-Identifier: Apache-2.0
// One GPU host: what the processes that use its devices share, kept in a file that all of them map.
// Whoever may write that file can stop the others: under rgpud each lease has one of its own.
//
// Each process has a slot there: its part of the address space of device memory, and how much
// memory it holds on each device. A slot belongs to the process that holds the file lock on its
// byte, so that the kernel itself frees it when the process dies, however it dies, whoever is left
// to look.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "softgpu/driver/base/settings.h"
#include "util/fd.h"
#include "util/result.h"

namespace rgpu::softgpu::driver {

// Device addresses of all processes of a host: slots, one after the other.
struct Addresses {
    uint64_t base, slot_bytes;
    int slots;
    constexpr bool contains(uint64_t address) const
    {
        return address >= base && address < base + slots * slot_bytes;
    }
};
// Below where Linux puts programs (0x55...) and above what AddressSanitizer uses.
constexpr Addresses kAddresses{0x2000'0000'0000, uint64_t{1} << 40, 48};
// Below 512 GiB, where ThreadSanitizer lets a program have memory (tsan_platform.h: LoAppMem).
constexpr Addresses kLowAddresses{0x10'0000'0000, uint64_t{1} << 36, 7};

class GpuHost {
public:
    // Joins the host, making the directory and its file where they are not there, and reserves the
    // slot's addresses. Where the process has something else at a slot's addresses (Linux puts
    // nothing there by itself, but a library may), the slot is another's. At most one GpuHost for a
    // directory in a process (closing one would drop the other's locks). `unavailable` when no slot
    // is free, `exhausted` when the process may not have the addresses.
    static Result<std::unique_ptr<GpuHost>> join(const std::string &directory,
                                                 const Addresses & = kAddresses);
    // The same in a file that is open already, and stands in no directory: a lease's. `name` is for
    // messages.
    static Result<std::unique_ptr<GpuHost>> join(Fd file, const std::string &name,
                                                 const Addresses & = kAddresses);
    ~GpuHost();

    int slot() const { return slot_; }
    uint64_t base() const { return addresses_.base + slot_ * addresses_.slot_bytes; }
    uint64_t bytes() const { return addresses_.slot_bytes; }

    // Takes bytes of a device's memory if what all live processes hold, and these, stay below
    // `limit`.
    bool take(int device, uint64_t bytes, uint64_t limit);
    void give(int device, uint64_t bytes);
    uint64_t used(int device);
    // What this process alone holds. Waits for nobody.
    uint64_t held(int device) const;

private:
    struct File;
    class Section;

    // Which slot is tried first. Programs of one host start by their file, and so have different
    // addresses as far as there are some: a stray pointer of one is rarely taken for another's.
    // Every lease starts from the same address, as with NVIDIA's driver: a client of several
    // servers is used to equal ones.
    enum class Start { by_file, first_slot };

    explicit GpuHost(const Addresses &a) : addresses_(a) {}
    static Result<std::unique_ptr<GpuHost>> join(Fd file, const std::string &name,
                                                 const Addresses &, Start);
    Result<void> enter(Fd file, const std::string &name, Start);
    Result<bool> take_slot(int slot);
    bool slot_is_live(int slot) const;
    uint64_t used_now(int device) const;

    const Addresses addresses_;
    Fd fd_;
    File *file_ = nullptr;
    int slot_ = -1;
    void *window_ = nullptr;
    std::mutex mutex_;
};

}  // namespace rgpu::softgpu::driver
