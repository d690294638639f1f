// SPDX-License-Identifier: Apache-2.0
// The sending side of packed frames (wire/packing.h): decides which payloads are packed, and packs
// them part by part.
//
// Decided by what the receiver says of the link (link_meter.h), by how fast this side packs, and by
// the bytes themselves: of a block that follows others which did not shrink, or none, some samples
// are packed first; where these do not shrink the next megabytes go as they are, and so on. Now and
// then some do although they would shrink, so that the receiver sees how the link is by now. use()
// and link_is() may be called by any thread; the rest is the sending thread's.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <span>

#include "net/packing/pack_library.h"
#include "wire/frame.h"

namespace rgpu::net {

class Packer {
public:
    // Smaller ones are not worth the work.
    static constexpr size_t kLeastPayload = 16 << 10;

    // Its parts are frames of this type: kPartCall or ServerFrame::part.
    explicit Packer(uint16_t part_type) : type_(part_type) {}

    // By one of these methods, which both sides have; `always`: whatever the link.
    void use(unsigned methods, bool always);
    // Bytes a second that the receiver sees; 0: too many to pack them.
    void link_is(uint64_t rate) { rate_.store(rate, std::memory_order_relaxed); }

    // Whether this payload is to be packed.
    bool takes(const void *payload, size_t bytes)
    {
        return bytes >= kLeastPayload && methods_.load(std::memory_order_acquire) &&
               worth_it(payload, bytes);
    }

    // In front of so many bytes of a frame that lie in front of its payload and go as they are.
    wire::FrameHeader head(size_t bytes) const;
    // The next of the payload's parts, at most kPartBytes of it: header and bytes, valid until the
    // next. `last`: ends the frame.
    std::span<const uint8_t> part(const void *from, size_t bytes, bool last);

    // Of the payloads that were packed: their bytes, and those of their parts.
    uint64_t taken() const { return taken_; }
    uint64_t made() const { return made_; }
    // What it packed by last, if anything.
    wire::PackMethod method() const { return method_; }

private:
    bool worth_it(const void *payload, size_t bytes);
    bool shrinks(const void *payload, size_t bytes);
    size_t pack(const void *from, size_t bytes, void *to, size_t room);
    void ended();
    void leave(size_t bytes);

    const uint16_t type_;
    std::atomic<unsigned> methods_{0};
    std::atomic<bool> always_{false};
    std::atomic<uint64_t> rate_{0};

    PackLibrary::Memory memory_;
    std::unique_ptr<uint8_t[]> part_;  // a header and kPartBytes
    wire::PackMethod method_ = wire::PackMethod::stored;
    uint64_t taken_ = 0, made_ = 0;
    size_t payload_taken_ = 0, payload_made_ = 0;  // of the payload that is being packed
    size_t leave_ = 0;                             // bytes that go as they are before the next look
    size_t patience_ = 0;     // how many, the last time that bytes did not shrink
    bool shrank_ = false;     // the last ones
    size_t since_probe_ = 0;  // packed bytes that were sent
    size_t timed_bytes_ = 0;  // packed in...
    std::chrono::nanoseconds timed_{0};
};

}  // namespace rgpu::net
