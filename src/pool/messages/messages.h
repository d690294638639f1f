// SPDX-License-Identifier: Apache-2.0
// What clients and servers of the control API say to each other: plain data.
//
// The JSON of each is in doc/api.md; the files *_json.h turn one into the other.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "util/units.h"

namespace rgpu::pool {

// Who holds, or asks for, a lease: a Slurm job on a node, or a process on a host.
struct Owner {
    uint32_t uid = 0;
    std::string user;  // as the client knows it; for people
    std::string job;   // Slurm's job id; empty outside Slurm
    std::string node;  // with job: the node whose tasks use it
    std::string qos;   // with job: Slurm's QOS; only administrators say it
    int run = -1;      // with job: how often Slurm had started it again before; -1: not said
    std::string host;  // outside Slurm
    uint32_t pid = 0;  // outside Slurm
    std::string account = {};  // with job: Slurm's account; only administrators say it
};

// "job 17 on cn1", "pid 4242 on host login1".
std::string to_text(const Owner &owner);

// Which GPUs will do: empty and zero fields do not filter. Each of the lists names what is one of
// them.
struct GpuFilter {
    std::vector<std::string> names;  // a part of the GPU's name, whatever the case
    std::vector<std::string> uuids;
    uint64_t memory = 0;         // at least so many bytes in all
    int compute_capability = 0;  // at least; 80 is 8.0
    int cuda = 0;                // the driver's CUDA version, at least; 12040 is 12.4
    std::string driver;  // the driver's release, at least: "570.86.10" (util/driver_release.h)
    bool empty() const
    {
        return names.empty() && uuids.empty() && !memory && !compute_capability && !cuda &&
               driver.empty();
    }
};

// GPUs wanted, all from one server unless it spans several.
struct Request {
    int gpus = 1;
    int share = kWholeGpu;  // hundredths of each: the least; 0: only what others leave
    int most = kWholeGpu;   // ... and what it may have while others leave it
    uint64_t memory = 0;    // bytes of each; 0: the share's part of the GPU's memory
    Milliseconds term{0};   // 0: until it is released
    std::string span;  // not empty: a part of them will do; the id of the span that its leases form
    GpuFilter filter;
    Owner owner;
};

// What the leases of one request on several servers have in common.
struct Span {
    std::string id;  // empty: the lease has all that was wanted
    int gpus = 0;    // how many they have together
};

// A GPU as it is, and what of it nobody holds.
struct GpuState {
    int index = 0;
    std::string uuid;
    std::string name;
    uint64_t memory = 0;
    std::string compute_capability;
    std::string pci;
    int free_share = kWholeGpu;
    uint64_t free_memory = 0;
    std::string drained;  // why nobody gets it now; empty: it is not drained
    // Whether its driver lets rgpu choose where memory lies (doc/addresses.md).
    bool fixed_addresses = true;
};

// An administrator's word that nobody gets a GPU until resume; who holds it keeps it.
struct Drain {
    std::string gpu;     // its UUID; empty: every GPU of the server
    std::string reason;  // never empty
    int64_t since = 0;   // seconds since the epoch, wall clock
};

// Whoever may use GPUs of the server's host gives them to the pool, for as long as the connection
// lasts that holds it.
struct Lend {
    std::vector<std::string>
        gpus;  // UUIDs, or numbers in the order of the PCI bus, as Slurm and nvidia-smi count
    Milliseconds grace{0};  // between its withdrawal and the end of the leases on it
    Owner owner;
};

// A part of a GPU that an offer or a lease holds.
struct Portion {
    int index = 0;  // on its server
    std::string uuid;
    std::string name;
    int share = kWholeGpu;  // the least
    uint64_t memory = 0;
    int most = kWholeGpu;
};

enum class Answer {
    now,    // offered: accept it before its lock expires
    later,  // it could, but others hold too much just now
    never,  // it could not even if it were idle
};

const char *name(Answer answer);

// What taking an offer would do to its server; the client compares servers by it (placement.h).
struct Fit {
    int whole_taken = 0;  // wholly free GPUs that the offer breaks or takes
    int whole_left = 0;   // wholly free GPUs that remain
    int share_left = 0;   // free hundredths that remain
    int distance =
        0;  // sum of the distances between the offered GPUs and to the network card; 0: unknown
    int load = 0;       // hundredths in use, per hundred that exist
    bool here = false;  // the server is on the host where the GPUs are to be used; the client's own
                        // knowledge
};

struct Offer {
    Answer answer = Answer::never;
    std::string reason;  // for later and never: a clause for a person
    std::string id;      // for now, as all that follows
    Milliseconds expires_in{0};
    std::vector<Portion> gpus;
    Fit fit;
    // Of a request with a span: how many of its GPUs the server could give if nobody held anything.
    // An offer of fewer than are wanted has answer now, too.
    int fitting = 0;
};

// Another size for a lease that is held, of each of its GPUs. What is not said stays as it is.
struct Resize {
    std::optional<int> share, most;  // hundredths; both or none
    uint64_t memory = 0;             // bytes; 0: as it is
    // Only makes sure that it can be done, and keeps the room for a while: to be kept or undone.
    bool hold = false;
};

struct Lease {
    std::string id;
    std::string secret;  // raw bytes; empty where the asker may not know it
    std::string
        sealed;  // raw bytes: the secret on its way to one asker (pool/credentials/sealed.h)
    Owner owner;
    std::vector<Portion> gpus;
    Milliseconds term{0};        // 0: until it is released
    Milliseconds expires_in{0};  // with a term
    int64_t granted_at = 0;      // seconds since the epoch, wall clock
    int workers = 0;             // running now
    bool nccl = false;           // its programs may use the server's NCCL
    std::string boot;  // of the host, when it was granted: its programs do not survive another
    Span span;
};

// Which leases: empty fields do not filter.
struct LeaseFilter {
    std::string job;
    std::string node;
    bool secrets = false;  // with their secrets, where the asker owns them or is an administrator
    bool usage = false;    // of a release: with what they used
    bool idle = false;     // of a release: none where a program of one of them is connected
    bool wait = true;      // of a release: until their workers have ended; nobody is given the GPUs
                           // before in any case
};

// What the programs of a lease used of one of its GPUs. Seconds of wall time.
struct GpuUsage {
    std::string uuid, name;
    int share = kWholeGpu;     // the least
    double busy_s = 0;         // their work was on the GPU
    double blocked_s = 0;      // launches waited for other tenants' turns
    double throttled_s = 0;    // launches waited as the lease's own ceiling was reached
    uint64_t memory_peak = 0;  // bytes; the most that was seen
    uint64_t launches = 0;
    uint64_t memory = 0;  // bytes that the lease has of it; 0: an older server does not tell
    // Joules: its part of what the GPU used; nothing: it is not known.
    std::optional<double> energy_j = {};
};

struct LeaseUsage {
    std::string lease;  // its id
    Owner owner;
    double held_s = 0;                     // from when it was granted to its end
    uint64_t bytes_in = 0, bytes_out = 0;  // over connections: from programs, to them
    uint64_t round_trips = 0;              // answers that programs waited for
    double network_s = 0;    // they waited for bytes on their way (worker/limits/metering.h)
    double idle_s = 0;       // since it was used last: kernels ran, or a MiB went over the network
    int64_t granted_at = 0;  // seconds since the epoch, wall clock
    int64_t ended_at = 0;    // the same; 0: it is held
    std::vector<GpuUsage> gpus;
};

// What leases of a server use, and used.
struct Usages {
    std::string name;  // the server's
    std::vector<LeaseUsage> leases;
};

// What the end of leases on a server came to.
struct Released {
    int count = 0;
    int lost = 0;  // of these: the host was booted after they were granted
    int gpus = 0;  // of all of them
    int busy = 0;  // programs that are connected, for which none was ended
    std::vector<LeaseUsage>
        usage;          // where asked for: of these, and of leases of the job that ended before
    int withdrawn = 0;  // with it: leases of the job that ended before, as their GPUs were
                        // withdrawn; each is told once
    std::string died;   // with it: how a worker of the job died that nobody had told to end
};

// All that `rgpu list` shows of one server.
struct Inventory {
    std::string name;
    std::string version;
    int driver_version = 0;  // as cuDriverGetVersion: 13000 is 13.0
    std::string
        driver_release;  // as nvmlSystemGetDriverVersion: "580.95.05"; empty: it does not tell
    bool software = false;
    int data_port = 0;
    std::vector<GpuState> gpus;
    std::vector<Lease> leases;  // those that the asker may see, without secrets
};

// How one tenant of a GPU stands: what it may have of the GPU's time, and what it was given. Parts
// are of 1.
struct TenantShare {
    std::string lease;  // empty, as the owner: another's, who the asker may not see
    Owner owner;
    int least = kWholeGpu, most = kWholeGpu;
    double weight = 1;
    int workers = 0;  // with turns on this GPU
    bool running = false, waiting = false;
    double due = 0;  // of those who want it now
    double given_1s = 0, given_10s = 0, given_1min = 0;
    double given_s = 0, owed_s = 0;  // in all; owed to it, or (< 0) by it
    uint64_t turns = 0, launches = 0, bytes = 0;
    double launches_per_s = 0, bytes_per_s = 0;
    uint64_t memory = 0, memory_used = 0;
    double longest_s = 0, running_s = 0;  // the longest kernel; how long the one that runs has run
};

struct GpuSharing {
    int index = 0;
    std::string uuid;
    std::vector<TenantShare> tenants;
};

// All that `rgpu top` shows of one server.
struct Sharing {
    std::string name;
    std::vector<GpuSharing> gpus;
};

// How bad what a health check found is; the worst last. `info` is neither good nor bad.
enum class Verdict { pass, info, skipped, marginal, fatal };
// "PASS", "INFO", "SKIPPED", "MARGINAL", "FATAL".
const char *name(Verdict verdict);

// What one health check found of one thing (doc/health.md).
struct Finding {
    std::string check;  // its name
    std::string of;     // "GPU 0", "eth0"; empty: of the host
    Verdict verdict = Verdict::pass;
    std::string value;  // what was found; of SKIPPED: why nothing was
    std::string limit;  // what would be right
    std::string cure;   // what to do, where it is not
};

// How a server says it is: what its checks found the last time. None: it does not look.
struct Health {
    std::string name;
    int64_t age_ms = 0;
    std::vector<Finding> findings;
};

// What a server says to everybody.
struct Alive {
    std::string name, version;
    int64_t time_ms = 0;  // its wall clock, since the epoch; 0: it does not say
};

// What a compute node's prolog said of its configuration when it last fetched a lease here: words
// PART:DIGEST, as the node has them. Told to administrators, as long as rgpud runs.
struct NodeConfig {
    std::string node;
    std::string config;
    int64_t age_ms = 0;
};
struct NodeConfigs {
    std::vector<NodeConfig> nodes;
};

// How two GPUs, or a GPU and the network card, are joined, in the words of nvidia-smi topo -m.
enum class Link { self, nv, pix, pxb, phb, node, sys, unknown };
// "X", "NV", "PIX", "PXB", "PHB", "NODE", "SYS", "?".
const char *name(Link link);

// How a server's GPUs lie.
struct Topology {
    struct Gpu {
        int index = 0;
        std::string uuid, name, pci;
        int numa = -1;            // -1: unknown
        std::string cpus;         // near it, "0-7,16"; empty: all are
        std::vector<Link> links;  // to each GPU in this order; at its own place to the network card
    };
    std::string name;
    std::string card;  // the network card's interface; empty: unknown
    std::vector<Gpu> gpus;
};

// A lease with where its data port is: what a program needs.
struct Grant {
    std::string server;        // its name
    std::string data_address;  // host:port
    Lease lease;
};

// A random id (32 hex digits) and a random secret (32 raw bytes), from the kernel.
std::string random_id();
std::string random_secret();

}  // namespace rgpu::pool
