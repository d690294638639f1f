// SPDX-License-Identifier: Apache-2.0
#include "pool/client/resize.h"

#include <optional>

namespace rgpu::pool {

Result<std::vector<Grant>> resize_all(Client &client, std::vector<Grant> leases,
                                      const Resize &resize)
{
    if (leases.size() == 1) {
        Result<Lease> done = client.resize(leases[0].server, leases[0].lease.id, resize);
        if (!done) return std::move(done).error();
        leases[0].lease = std::move(*done);
        return leases;
    }
    // First all make sure that they can, and hold it: what is kept then cannot fail for want of
    // room.
    Resize held = resize;
    held.hold = true;
    std::optional<Error> failure;
    size_t count = 0;
    for (; count < leases.size() && !failure; ++count)
        if (auto able = client.resize(leases[count].server, leases[count].lease.id, held); !able)
            failure = std::move(able).error().in(leases[count].server);
    if (failure) {
        for (size_t i = 0; i + 1 < count; ++i)
            (void)client.end_resize(leases[i].server, leases[i].lease.id, false);
        return std::move(*failure);
    }
    for (Grant &grant : leases) {
        Result<Lease> kept = client.end_resize(grant.server, grant.lease.id, true);
        if (kept)
            grant.lease = std::move(*kept);
        else if (!failure)
            failure = std::move(kept).error().in(grant.server);
    }
    if (failure)
        return std::move(*failure).in("not all servers have kept the new size; see rgpu list");
    return leases;
}

}  // namespace rgpu::pool
