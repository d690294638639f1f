// SPDX-License-Identifier: Apache-2.0
// The receiving end of a connection: frames, and the bytes of their bodies.
//
// Owns the buffer that small frames are read into, many with one system call; the bytes of large
// blocks go straight to where they belong. A packed frame (packing.h) reads as if it were not.
//
// Threads: one at a time; answers.h says which. Failure: everything that reads returns false when
// the connection is lost, which it is by then, for the reason that was found here.
//
//   while (reader.begin(h) && reader.body(to, h.bytes) && reader.end()) ...
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "interpose/base/forecasting.h"
#include "interpose/link/connection.h"
#include "interpose/link/packing.h"
#include "util/spin.h"
#include "wire/frame.h"

namespace rgpu::interpose {

class FrameReader {
public:
    explicit FrameReader(Connection &connection) : connection_(connection) {}
    FrameReader(const FrameReader &) = delete;
    FrameReader &operator=(const FrameReader &) = delete;

    // Frames may come packed from now on. Before the first one; `packing` outlives this.
    void use(Packing &packing) { packing_ = &packing; }

    // Before the first frame: is told when bytes come.
    void use(Forecaster &forecaster) { forecaster_ = &forecaster; }
    // How many bytes have come of the frame that is being read, whose header this is.
    size_t came(const wire::FrameHeader &h) const;

    // The next frame's header. Between it and end(), body() reads exactly its h.bytes.
    bool begin(wire::FrameHeader &h);
    bool body(void *to, size_t bytes);
    bool end();

    // Whether begin() would find bytes without the server sending any more.
    bool input_is_there() const;
    // The next frame answers a block that was sent a moment ago: it is worth looking for.
    void expect_block_answer() { behind_sent_ = true; }
    // Records (wire/lanes.h) begin behind the last byte that was read.
    void begin_lanes();

private:
    // The unpacker's counts, to tell what one frame adds to them.
    struct Counts {
        uint64_t came = 0, became = 0;
    };

    bool raw(void *data, size_t bytes);
    ssize_t wait_for_bytes(void *to, size_t room, Spin &spin);
    void lose_for(ssize_t received);  // what it returned; with errno

    Connection &connection_;
    Packing *packing_ = nullptr;        // null: nothing comes packed
    Forecaster *forecaster_ = nullptr;  // null: no forecast is made
    Counts before_;                     // where the packed frame begins that is being read

    static constexpr size_t kInBytes = 256 << 10;
    // kInBytes; received and not yet taken is what lies in [in_at_, in_end_).
    std::unique_ptr<uint8_t[]> in_ = std::make_unique_for_overwrite<uint8_t[]>(kInBytes);
    size_t in_at_ = 0, in_end_ = 0;

    // Where it looks for bytes before it sleeps: within a large block, where the next one's head is
    // to come, where a block that was sent is to be answered, and everywhere else. Looks at a
    // socket that is being filled hold it, and a server that has to wake the reader for a head is
    // late with the block behind it, too.
    static constexpr auto kBetweenBlocks = std::chrono::microseconds(200),
                          kBetweenLooks = std::chrono::microseconds(4);
    Spin block_spin_{0, Spin::kMoment, kBetweenLooks}, head_spin_{0, kBetweenBlocks, kBetweenLooks},
        sent_spin_{0, kBetweenBlocks, kBetweenLooks}, spin_;
    bool behind_large_ = false;  // the last block went straight to its destination
    bool behind_sent_ = false;   // whoever reads waits for the answer to a block
};

}  // namespace rgpu::interpose
