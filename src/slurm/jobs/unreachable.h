// SPDX-License-Identifier: Apache-2.0
// Since when servers have not answered rgpu slurm sync, from one run of it to the next.
//
// Told by the host's clock since its boot, which nobody sets: a step of the wall clock makes no
// server lost.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "pool/client/client.h"
#include "util/clock.h"
#include "util/result.h"

namespace rgpu::slurm {

// By server; milliseconds of CLOCK_BOOTTIME.
using UnreachableSince = std::map<std::string, Milliseconds>;

// A server that answers, if only with an error, is reachable.
bool is_unreachable(const pool::Told<pool::Inventory> &told);

// Which servers are unreachable now: as long as before, or from now on.
UnreachableSince update_unreachable(const UnreachableSince &before, const pool::Inventories &pool,
                                    Milliseconds now);

// The file's text. What another boot of the host wrote counts for nothing, as what is no such file
// does.
std::string format_unreachable(const UnreachableSince &since, const std::string &boot);
UnreachableSince parse_unreachable(std::string_view text, const std::string &boot);

// update_unreachable() with the file at `path`, this host's boot and its clock. Replaces the file
// at once.
Result<UnreachableSince> track_unreachable(const std::string &path, const pool::Inventories &pool,
                                           Milliseconds now);
Milliseconds since_boot();

}  // namespace rgpu::slurm
