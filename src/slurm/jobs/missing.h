// SPDX-License-Identifier: Apache-2.0
// What Slurm would sell and the pool cannot give now: the arithmetic of rgpu slurm sync, and what
// it reads of scontrol.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "pool/client/client.h"
#include "slurm/terms/licences.h"
#include "slurm/terms/snapshot.h"

namespace rgpu::slurm {

// The licence rgpu as `scontrol -o show lic` prints it; hundredths of a GPU.
struct Licences {
    unsigned long total = 0;
    unsigned long used = 0;  // by jobs; what is reserved is not among it
};
// Nothing where Slurm has no such licence.
std::optional<Licences> parse_licences(std::string_view shown);
// Those of rgpu_TYPE, by TYPE.
std::map<std::string, Licences> parse_type_licences(std::string_view shown);

// The pool's licences in the reservation of this name, as `scontrol -o show reservation` prints
// them; nothing where there is no such reservation.
std::optional<OwnLicences> parse_reserved(std::string_view shown, std::string_view name);

// What the lease of a job holds, in licences.
unsigned long paid(const pool::Lease &lease);
// ... and of which of these types.
void add_types(const pool::Lease &lease, const std::vector<std::string> &types,
               std::map<std::string, unsigned long> &to);

// How large the reservation must be. What jobs hold stays theirs, wherever it is; of what nobody
// holds Slurm may sell the free parts of GPUs that answer and are not drained. What others than
// Slurm's jobs hold is missing, too, and so is what a lease still holds whose job has ended.
// `before` tells how large servers are that do not answer now, `active` which jobs run, begin or
// end; without it every job does that has a lease. With a `type` it is about the licences of that
// type, and `active` are the jobs that have some: what another job holds of such GPUs is missing.
unsigned long missing_licences(const pool::Inventories &pool, const Snapshot *before,
                               const Licences &licences,
                               const std::set<std::string> *active = nullptr,
                               const std::string &type = {});

}  // namespace rgpu::slurm
