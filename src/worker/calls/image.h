// SPDX-License-Identifier: Apache-2.0
// The image at the end of a load's or a link input's body, wherever its bytes come from
// (wire/image.h).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "wire/image.h"
#include "worker/session/session.h"

namespace rgpu::worker {

struct Image {
    bool missing = false;           // it was named by a digest that is not known here
    std::span<const uint8_t> view;  // the bytes

    // Reads what is left of `body`, which `r` reads. Fails on what no client sends.
    Result<void> read(Session &s, wire::Reader &r, std::vector<uint8_t> body);
    // What the answer begins with.
    wire::ImageAnswer answer(const Session &s, CUresult result) const;
    // After the answer: the client need not wait for the disk.
    void keep(Session &s) const
    {
        if (came_) s.images.keep(view);
    }

private:
    std::vector<uint8_t> memory_;
    bool came_ = false;  // as its bytes
};

}  // namespace rgpu::worker
