// SPDX-License-Identifier: Apache-2.0
// Calls that carry a module image: by its digest where the server has kept the bytes, else as it
// is.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "interpose/link/server_session.h"

namespace rgpu::interpose {

// Sends call `id` with `head` as the body's beginning and the image, which is `parts` one after the
// other, as its end; waits for the answer, of which `reply` gets what comes behind the ImageAnswer.
// One round trip, unless the server has lost an image that it had. CUDA_ERROR_OUT_OF_MEMORY for
// more than a frame can carry.
// `context`: as for ServerSession::ask(). Any thread.
CUresult ask_with_image(ServerSession &, uint32_t context, calls::SentCall id,
                        const std::vector<uint8_t> &head, std::span<const std::string_view> parts,
                        Reply &reply);

}  // namespace rgpu::interpose
