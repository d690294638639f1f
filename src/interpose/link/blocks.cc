// SPDX-License-Identifier: Apache-2.0
// Waiting for the server to have read blocks.
#include "interpose/link/blocks.h"

#include <utility>

namespace rgpu::interpose {

// Answers come to where these lie.
Blocks::~Blocks()
{
    for (Block &b : blocks_)
        if (b.asked) session_.wait_block(b.read);
}

CUresult Blocks::make_room()
{
    if (CUresult dead = session_.state()) return dead;
    Block &b = blocks_[sent_ % kAhead];
    return std::exchange(b.asked, false) ? session_.wait_block(b.read) : CUDA_SUCCESS;
}

}  // namespace rgpu::interpose
