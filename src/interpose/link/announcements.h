// SPDX-License-Identifier: Apache-2.0
// What a server sends that answers no call: text that kernels printed, host functions whose turn it
// is, and how fast our bytes come to it.
//
// Holds nothing but counts. The thread that reads (answers.h) brings the frames; any thread may
// expect some. Failure: a frame that is damaged loses the connection.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "interpose/link/connection.h"
#include "interpose/link/frame_reader.h"
#include "interpose/link/packing.h"

namespace rgpu::interpose {

class Announcements {
public:
    // What is told of host functions: by the thread that reads, which it must not hold up.
    class HostFunctions {
    public:
        virtual void due(uint64_t token, uint32_t status) = 0;

    protected:
        ~HostFunctions() = default;
    };

    Announcements(Connection &connection, HostFunctions &functions)
        : connection_(connection), functions_(functions)
    {}

    // Before the first frame; outlives this. Without, a word about the link is damage.
    void use(Packing &packing) { packing_ = &packing; }

    // Before the first frame: is told of host functions.
    void use(Forecaster &forecaster) { forecaster_ = &forecaster; }

    // Takes the frame of this header, whose body is still to be read; false: the connection is
    // lost.
    bool take(const wire::FrameHeader &h, FrameReader &reader);

    // So many host functions will be due while nobody may be waiting; or will not, after all.
    void expect(size_t n) { expected_ += n; }
    void expect_fewer(size_t n);
    bool expected() const { return expected_ != 0; }
    // The connection is lost.
    void expect_none() { expected_ = 0; }

    // How many frames have told something about the GPU.
    uint64_t heard() const { return heard_.load(std::memory_order_acquire); }

private:
    bool take_text(const wire::FrameHeader &h, FrameReader &reader);
    bool take_callback(const wire::FrameHeader &h, FrameReader &reader);
    bool take_link(const wire::FrameHeader &h, FrameReader &reader);

    Connection &connection_;
    HostFunctions &functions_;
    Packing *packing_ = nullptr;
    Forecaster *forecaster_ = nullptr;
    std::atomic<size_t> expected_{0};
    std::atomic<uint64_t> heard_{0};
};

}  // namespace rgpu::interpose
