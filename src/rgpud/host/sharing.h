// SPDX-License-Identifier: Apache-2.0
// How the tenants of this host's GPUs stand, as `rgpu top` is told.
#pragma once

#include <string>
#include <vector>

#include "pool/messages/messages.h"
#include "rgpud/host/boards.h"

namespace rgpu::serverd {

// The message that `rgpu top` shows, of `boards` as Boards::view() gives them. `gpus` says their
// numbers. A tenant whose lease is none of `leases` has neither an id nor an owner in it: these are
// the leases that the asker may see. Pure.
pool::Sharing describe(const std::vector<Boards::Gpu> &boards, const std::string &server,
                       const std::vector<pool::GpuState> &gpus,
                       const std::vector<pool::Lease> &leases);

}  // namespace rgpu::serverd
