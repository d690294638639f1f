// SPDX-License-Identifier: Apache-2.0
// How the frames of one connection are packed (net/packing/packer.h), both ways, and whether its
// link is slow. What is agreed on with the server is packing_agreement.h's.
#pragma once

#include <atomic>
#include <functional>

#include "net/packing/link_meter.h"
#include "net/packing/packer.h"
#include "net/packing/unpacker.h"

namespace rgpu::interpose {

class Packing {
public:
    // `always`: a method is named, and frames are packed over a fast link, too.
    explicit Packing(bool always);

    net::Packer out;
    net::Unpacker in;

    bool always() const { return always_; }

    // `changed` is called when either side finds that the link is slow, or as slow as before no
    // longer. To be said before the first frame comes; the reading thread calls it, with locks that
    // others need.
    void when_link_changes(std::function<void()> changed) { changed_ = std::move(changed); }
    // Bytes a second that come from the server, as measured here. 0: fast, or not known. Any
    // thread.
    uint64_t rate() const { return rate_; }

    // The server tells how our bytes come to it; 0: fast. The reading thread's.
    void link_is(uint64_t rate);
    // So many bytes of a large block came; `waits`: more are to come, and were not there. The
    // reading thread's.
    void received(size_t bytes, bool waits);

private:
    const bool always_;
    std::function<void()> changed_ = [] {};
    net::LinkMeter meter_;
    std::atomic<uint64_t> rate_{0};  // what the meter says
};

}  // namespace rgpu::interpose
