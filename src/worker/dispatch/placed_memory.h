// SPDX-License-Identifier: Apache-2.0
// What the client says of memory at addresses that it chooses (wire/bands.h): it asks for credit,
// says where an allocation lies, and gives credit back. It frees such memory by the calls for that.
//
// A client that keeps to the rules is never refused here, as the addresses and the credit are
// known to both sides. One that does not loses the connection.
#pragma once

#include "worker/session/session.h"

namespace rgpu::worker {

Result<void> take_placed(Session &, const wire::FrameHeader &);

}  // namespace rgpu::worker
