// SPDX-License-Identifier: Apache-2.0
#include "cli/slurm/rights.h"

#include <unistd.h>

#include "pool/credentials/auth.h"

namespace rgpu::cli {

Result<void> sees_all_leases(const AuthConfig &auth)
{
    if (pool::is_admin(auth, geteuid())) return {};
    return error(ErrorKind::invalid,
                 "the servers show you no leases but your own; run this as root, "
                 "or as one of [auth] admins of rgpu.conf (SlurmUser is one)");
}

}  // namespace rgpu::cli
