// SPDX-License-Identifier: Apache-2.0
// Another size for leases on several servers: all of them, or none.
#pragma once

#include <vector>

#include "pool/client/client.h"
#include "util/result.h"

namespace rgpu::pool {

// What the leases have then. Fails with the first server's word, and its name where there are
// several; then all have what they had. Only where a server is lost, or its disk is full, between
// its promise and its keeping may some have the new size, which the error says.
Result<std::vector<Grant>> resize_all(Client &client, std::vector<Grant> leases,
                                      const Resize &resize);

}  // namespace rgpu::pool
