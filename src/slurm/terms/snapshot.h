// SPDX-License-Identifier: Apache-2.0
// The pool snapshot: what the servers have, in a file small enough to read under slurmctld's locks.
//
// `rgpu slurm sync` writes it, job_submit reads it. It tells what could ever fit, not what is free.
// Text, at most kSnapshotBytes, one line each:
//
//   rgpu-pool 1
//   total SERVERS GPUS
//   server NAME GPUS MEMORY     (bytes of its largest GPU), the largest servers first
//   gpus_mean_rgpu              ([slurm] gpus_mean_rgpu of rgpu.conf is true)
//   no_node_gpus                (no node of Slurm's has a GPU of its own, gres/gpu)
//   model SERVER GPUS MEMORY CC CUDA NAME     (8.0 is 80, CUDA 12.4 is 12040), the server's GPUs of
//   one kind
//   driver RELEASE SERVER...    (580.95.05; - does not tell), the servers with this release of
//   NVIDIA's driver
//   uuid SERVER UUID...         all GPUs of the server
//
// A pool with too many servers for the file leaves out the smallest; total counts all. Where the
// models of all do not fit, none is there, and no driver; the same with the UUIDs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "slurm/terms/request.h"
#include "util/result.h"

namespace rgpu::slurm {

inline constexpr size_t kSnapshotBytes = 16384;

// GPUs of one server that are alike.
struct PoolModel {
    unsigned gpus = 0;
    uint64_t memory = 0;
    int compute_capability = 0;
    int cuda = 0;
    std::string name;
};

struct PoolServer {
    std::string name;
    unsigned gpus = 0;
    uint64_t memory = 0;
    std::vector<PoolModel> models = {};  // empty: not known
    std::optional<std::string> driver =
        {};  // its release: empty where the server does not tell; without: not known
    std::vector<std::string> uuids = {};  // of its GPUs; empty: not known
};

// What else job_submit is told.
struct SlurmFacts {
    bool gpus_mean_rgpu = false;
    bool no_node_gpus = false;
};

struct Snapshot {
    std::vector<PoolServer> servers;
    unsigned total_servers = 0;
    unsigned total_gpus = 0;
    SlurmFacts facts = {};

    bool complete() const { return servers.size() == total_servers; }
};

// Where it lies: $RGPU_SNAPSHOT, or the path that was built in.
std::string snapshot_path();

Result<Snapshot> parse_snapshot(std::string_view text);

// Sorts the servers, and counts the totals itself.
std::string format_snapshot(std::vector<PoolServer> servers, const SlurmFacts &facts = {});

// ErrorKind::unavailable where there is no such file, invalid where it is not ours or too large.
Result<Snapshot> read_snapshot(const std::string &path);

// Replaces the file at once, so that a reader sees the old one or the new one.
Result<void> write_snapshot(const std::string &path, std::vector<PoolServer> servers,
                            const SlurmFacts &facts = {});

// Refuses, with a sentence for the user, what this pool could not give if all of it were free.
Result<void> can_ever_fit(const Snapshot &pool, const Request &request, unsigned nodes);

// How many of the server's GPUs are of the type; all of them where their names are not known.
unsigned gpus_of_type(const PoolServer &server, const std::string &type);

// Those of the types that all GPUs are of which such a request can be given: their licences are
// what it takes. Without a snapshot that is the type that it names.
std::vector<std::string> types_of(const Snapshot *pool, const Request &request,
                                  const std::vector<std::string> &types);

// On how many nodes such a request can be served at most, as far as the snapshot tells; never more
// than `nodes`.
unsigned nodes_that_fit(const Snapshot &pool, const Request &request, unsigned nodes);

}  // namespace rgpu::slurm
