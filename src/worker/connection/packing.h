// SPDX-License-Identifier: Apache-2.0
// Packed frames of one connection (net/packing/packer.h): what the client says of it, and what this
// side sees of the link.
#pragma once

#include <memory>

#include "worker/connection/input.h"
#include "worker/connection/sender.h"

namespace rgpu::worker {

class Packing {
public:
    // For a session's two ends, which use it from the client's first word on.
    Packing(Input &, Sender &);
    ~Packing();

    // A frame of type kPackingCall. Dispatcher only. Fails with `invalid` on what no client sends.
    Result<void> take(const wire::FrameHeader &);

private:
    Input &input_;
    Sender &sender_;
    struct Ways;
    std::unique_ptr<Ways> ways_;
};

}  // namespace rgpu::worker
