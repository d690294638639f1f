// SPDX-License-Identifier: Apache-2.0
#include "rgpud/host/sharing.h"

#include <algorithm>

#include "share/protocol.h"

namespace rgpu::serverd {

namespace {

pool::TenantShare tenant_share(const share::TenantView &view)
{
    pool::TenantShare t;
    t.least = view.terms.least;
    t.most = view.terms.most;
    t.weight = view.terms.weight / 100.0;
    t.workers = view.workers;
    t.running = view.holds;
    t.waiting = view.waits;
    t.due = view.due;
    t.given_1s = view.given_1s;
    t.given_10s = view.given_10s;
    t.given_1min = view.given_1min;
    t.given_s = view.given_seconds;
    t.owed_s = view.owed_seconds;
    t.turns = view.turns;
    t.launches = view.launches;
    t.bytes = view.bytes;
    t.launches_per_s = view.launches_per_s;
    t.bytes_per_s = view.bytes_per_s;
    t.memory_used = static_cast<uint64_t>(std::max<int64_t>(0, view.memory));
    t.longest_s = view.longest_s;
    t.running_s = view.running_s;
    return t;
}

// What the lease says of the tenant, whose it is above all.
void tell_lease(const pool::Lease &lease, const std::string &gpu, pool::TenantShare &tenant)
{
    tenant.lease = lease.id;
    tenant.owner = lease.owner;
    for (const pool::Portion &portion : lease.gpus)
        if (portion.uuid == gpu) tenant.memory = portion.memory;
}

}  // namespace

pool::Sharing describe(const std::vector<Boards::Gpu> &boards, const std::string &server,
                       const std::vector<pool::GpuState> &gpus,
                       const std::vector<pool::Lease> &leases)
{
    pool::Sharing sharing;
    sharing.name = server;
    for (const Boards::Gpu &board : boards) {
        pool::GpuSharing gpu;
        gpu.uuid = board.uuid;
        for (const pool::GpuState &state : gpus)
            if (state.uuid == gpu.uuid) gpu.index = state.index;
        for (const share::TenantView &view : board.tenants) {
            pool::TenantShare tenant = tenant_share(view);
            const std::string id = share::text_of(view.lease);
            for (const pool::Lease &lease : leases)
                if (lease.id == id) tell_lease(lease, gpu.uuid, tenant);
            gpu.tenants.push_back(std::move(tenant));
        }
        sharing.gpus.push_back(std::move(gpu));
    }
    return sharing;
}

}  // namespace rgpu::serverd
