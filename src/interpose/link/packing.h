// Packed frames of one session (net/packing/packer.h): as RGPU_COMPRESSION says, agreed on with the
// server when either side finds the link slow, or at once where a method is named.
#pragma once

#include <atomic>
#include <mutex>

#include "net/packing/link_meter.h"
#include "net/packing/packer.h"
#include "net/packing/unpacker.h"
#include "util/result.h"

namespace rgpu::interpose {

class Session;

class Packing {
public:
    enum class Wanted { automatic, off, lz4, zstd };
    // Fails with `invalid` on another word.
    static Result<Wanted> wanted();

    Packing(Session &session, Wanted wanted);

    net::Packer out;
    net::Unpacker in;

    // What is said of it to the server, first.
    wire::Packing greeting() const { return {}; }
    // Where a method is named: agrees on it, in the calling thread.
    void agree_now();
    // The server tells how our bytes come to it; 0: fast. The reading thread's.
    void link_is(uint64_t rate);
    // So many bytes of a large block came; `waits`: more are to come, and were not there. The
    // reading thread's.
    void received(size_t bytes, bool waits);

private:
    void agree_later();
    void run();
    void agree();
    unsigned wanted_methods() const;
    bool always() const { return wanted_ != Wanted::automatic; }

    Session &session_;
    const Wanted wanted_;
    net::LinkMeter meter_;
    std::atomic<uint64_t> rate_{0};  // what the meter says
    std::mutex mutex_;
    bool changed_ = false, running_ = false;  // there is something to agree on; a thread does so
    bool never_ = false;                      // it was tried, and cannot be
};

}  // namespace rgpu::interpose
