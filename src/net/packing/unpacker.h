// SPDX-License-Identifier: Apache-2.0
// The receiving side of packed frames (wire/packing.h). The peer may send anything: lengths are
// checked before they are used, nothing is written outside of what is asked for, and what is
// damaged is an error that ends the connection.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>

#include "net/packing/pack_library.h"
#include "util/result.h"
#include "wire/frame.h"

namespace rgpu::net {

class Unpacker {
public:
    // The next bytes of the stream as they come; false: there are no more.
    using Raw = std::function<bool(void *to, size_t bytes)>;

    // Parts are frames of this type: kPartCall or ServerFrame::part.
    explicit Unpacker(uint16_t part_type) : type_(part_type) {}

    // By these methods: until then every part is refused. Any thread.
    void use(unsigned methods);

    // With the header of a frame's first part; the frame is read() from now on, its own header
    // first.
    Result<void> open(const wire::FrameHeader &part);
    bool inside() const { return inside_; }
    // The frame's next bytes. `disconnected` with an empty text: the stream has ended.
    Result<void> read(void *to, size_t bytes, const Raw &raw);
    // The frame is over: fails where its parts are not.
    Result<void> close();

    // Of what was packed: the bytes that came, and what they became.
    uint64_t came() const { return came_; }
    uint64_t became() const { return became_; }

private:
    Result<void> check(const wire::FrameHeader &) const;
    Result<void> unpack(void *to, const Raw &raw);

    const uint16_t type_;
    std::atomic<unsigned> methods_{0};
    PackLibrary::Memory memory_;
    std::unique_ptr<uint8_t[]> packed_, unpacked_;  // kPartBytes each
    bool inside_ = false;
    bool waiting_ = false;  // part_ is still to be unpacked
    wire::FrameHeader part_;
    bool last_ = false;        // it ends the frame
    size_t at_ = 0, end_ = 0;  // of unpacked_
    uint64_t came_ = 0, became_ = 0;
};

}  // namespace rgpu::net
