// SPDX-License-Identifier: Apache-2.0
// The keys of rgpu.conf: the one place where each of them stands.
#include "util/config.h"

namespace rgpu {
namespace {

constexpr int64_t ms(Milliseconds time) { return time.count(); }

using namespace std::chrono_literals;

// Where a key of a table, or of a [[server]], is kept.
#define FIELD(part, member) [](Config &c, ServerEntry &) -> ConfigField { return &c.part.member; }
#define SERVER_FIELD(member) [](Config &, ServerEntry &s) -> ConfigField { return &s.member; }

std::vector<ConfigKey> keys()
{
    return {
        {.table = "server",
         .name = "name",
         .help = "The server's name; the same as name under [rgpud] in its own file.",
         .field = SERVER_FIELD(name),
         .needed = true},
        {.table = "server",
         .name = "address",
         .help = "Host and control port, like \"gpu1:7710\".",
         .field = SERVER_FIELD(address),
         .needed = true},
        {.table = "server",
         .name = "pin",
         .help = "The server's control port is asked in TLS, and must have this key (rgpu pin "
                 "shows it); while a key is changed, the old and the new with a semicolon between.",
         .field = SERVER_FIELD(pin)},
        {.table = "server",
         .name = "ca_file",
         .help = "The server's control port is asked in TLS, and must have a certificate for its "
                 "host in address, signed by an authority of this PEM file.",
         .field = SERVER_FIELD(ca_file)},
        {.table = "server",
         .name = "node",
         .help = "Slurm's name of the compute node on whose host the server runs, where it runs on "
                 "one; empty is the server's name.",
         .field = SERVER_FIELD(node)},

        {.table = "auth",
         .name = "method",
         .help = "How requests prove who asks: munge; key (an HMAC with key_file, outside Slurm); "
                 "none (only where every server listens on loopback).",
         .field = FIELD(auth, method),
         .choices = {"munge", "key", "none"}},
        {.table = "auth",
         .name = "key_file",
         .help = "Method key: a file of at least 32 random bytes, mode 0600 or 0640.",
         .field = FIELD(auth, key_file),
         .needed = true},
        {.table = "auth",
         .name = "munge_socket",
         .help = "Method munge: munged's socket; empty is MUNGE's own default.",
         .field = FIELD(auth, munge_socket)},
        {.table = "auth",
         .name = "admins",
         .help = "Users (names or numbers) that may lease for others, and see and end every lease. "
                 "Add SlurmUser.",
         .field = FIELD(auth, admins)},

        {.table = "rgpud",
         .name = "name",
         .help = "This server's name in the pool; empty is the host's short name.",
         .field = FIELD(rgpud, name)},
        {.table = "rgpud",
         .name = "listen",
         .help = "Address that both ports listen on.",
         .field = FIELD(rgpud, listen),
         .needed = true},
        {.table = "rgpud",
         .name = "tls",
         .help = "The control port: offered (clients whose rgpu.conf has a pin or ca_file for this "
                 "server speak TLS 1.3, the others in the clear), required (all must), or off.",
         .field = FIELD(rgpud, tls),
         .choices = {"offered", "required", "off"}},
        {.table = "rgpud",
         .name = "tls_key",
         .help = "The control port's private key (PEM), which rgpud's account can read and others "
                 "cannot; empty is a key of its own, made at the first start: control.key in "
                 "state_dir. Another key in its place is used at once.",
         .field = FIELD(rgpud, tls_key)},
        {.table = "rgpud",
         .name = "tls_certificate",
         .help = "The certificate of tls_key (PEM), with those between it and the authority; empty "
                 "makes one of the key, for clients that have its pin.",
         .field = FIELD(rgpud, tls_certificate)},
        {.table = "rgpud",
         .name = "control_port",
         .help = "Port of the control API; 0 lets the kernel choose.",
         .field = FIELD(rgpud, control_port),
         .low = 0,
         .high = 65535},
        {.table = "rgpud",
         .name = "data_port",
         .help = "Port that programs connect to; 0 lets the kernel choose.",
         .field = FIELD(rgpud, data_port),
         .low = 0,
         .high = 65535},
        {.table = "rgpud",
         .name = "driver",
         .help = "nvidia, softgpu (software GPUs), auto (software GPUs where the host has nothing "
                 "of NVIDIA's), or the path of a libcuda.so.1.",
         .field = FIELD(rgpud, driver),
         .needed = true},
        {.table = "rgpud",
         .name = "lend",
         .help = "all: every GPU is in the pool. jobs: only those that rgpu lend holds, for hosts "
                 "whose GPUs Slurm gives to its own jobs, too "
                 "(gres/gpu).",
         .field = FIELD(rgpud, lend),
         .choices = {"all", "jobs"}},
        {.table = "rgpud",
         .name = "softgpu_devices",
         .help = "How many software GPUs.",
         .field = FIELD(rgpud, softgpu_devices),
         .low = 1,
         .high = 64},
        {.table = "rgpud",
         .name = "softgpu_memory",
         .help = "Memory of each software GPU.",
         .field = FIELD(rgpud, softgpu_memory),
         .low = int64_t{16} << 20,
         .high = int64_t{1} << 44},
        {.table = "rgpud",
         .name = "softgpu_compute_capability",
         .help = "The compute capability that software GPUs claim.",
         .field = FIELD(rgpud, softgpu_compute_capability),
         .needed = true},
        {.table = "rgpud",
         .name = "softgpu_library",
         .help = "The software GPU's libcuda.so.1.",
         .field = FIELD(rgpud, softgpu_library),
         .needed = true},
        {.table = "rgpud",
         .name = "worker",
         .help = "The worker program.",
         .field = FIELD(rgpud, worker),
         .needed = true},
        {.table = "rgpud",
         .name = "worker_user",
         .help = "Account of the workers of root's leases; empty: an id of worker_uids. "
                 "root is allowed only where listen is loopback.",
         .field = FIELD(rgpud, worker_user)},
        {.table = "rgpud",
         .name = "worker_uids",
         .help = "User ids that no account of this host has: each job of an owner whom this host "
                 "does not know runs as one of "
                 "them, which is nobody else's meanwhile.",
         .field = FIELD(rgpud, worker_uids),
         .needed = true},
        {.table = "rgpud",
         .name = "user",
         .help = "Account that rgpud itself becomes where root starts it; where there is none, it "
                 "is the first of worker_uids.",
         .field = FIELD(rgpud, user),
         .needed = true},
        {.table = "rgpud",
         .name = "spawner",
         .help = "Socket of rgpu-spawner, which starts the workers; empty is spawner.sock in "
                 "state_dir.",
         .field = FIELD(rgpud, spawner)},
        {.table = "rgpud",
         .name = "state_dir",
         .help = "Directory for what rgpud keeps; made when missing.",
         .field = FIELD(rgpud, state_dir),
         .needed = true},
        {.table = "rgpud",
         .name = "offer_timeout",
         .help = "An offer holds its GPUs for this long.",
         .field = FIELD(rgpud, offer_timeout),
         .low = ms(100ms),
         .high = ms(60s)},
        {.table = "rgpud",
         .name = "max_term",
         .help = "Longest term of a lease before it must be renewed; 0 is no limit.",
         .field = FIELD(rgpud, max_term),
         .low = 0,
         .high = ms(24h * 365)},
        {.table = "rgpud",
         .name = "handshake_timeout",
         .help = "A program must prove within this time that it holds a lease.",
         .field = FIELD(rgpud, handshake_timeout),
         .low = ms(100ms),
         .high = ms(60s)},
        {.table = "rgpud",
         .name = "encrypt",
         .help = "Data connections are encrypted (TLS 1.3, with a key made from the lease's "
                 "secret): auto (those between hosts), true (all), or false (none: for a network "
                 "that nobody else can read). Programs need OpenSSL (libssl.so.3) on their hosts. "
                 "What is encrypted is TCP: no UCX, shared memory, packing or further connections.",
         .field = FIELD(rgpud, encrypt),
         .choices = {"auto", "true", "false"}},
        {.table = "rgpud",
         .name = "audit",
         .help = "A line for each grant, refusal, end of a lease, and administrator's act, with "
                 "who, what and from where: off, text (name=value), or json (an object a line).",
         .field = FIELD(rgpud, audit),
         .choices = {"off", "text", "json"}},
        {.table = "rgpud",
         .name = "audit_file",
         .help = "Where these lines are appended (mode 0600; opened again when it was moved away); "
                 "empty is rgpud's log.",
         .field = FIELD(rgpud, audit_file)},
        {.table = "rgpud",
         .name = "transport",
         .help = "What workers offer beside TCP: auto (shared memory on one host, UCX where this "
                 "host has an RDMA device), tcp (nothing), or ucx "
                 "(both, and UCX over whatever it finds). Encrypted connections are TCP.",
         .field = FIELD(rgpud, transport),
         .choices = {"auto", "tcp", "ucx"}},
        {.table = "rgpud",
         .name = "max_handshakes",
         .help = "Connections at once that have not proved anything yet.",
         .field = FIELD(rgpud, max_handshakes),
         .low = 1,
         .high = 4096},
        {.table = "rgpud",
         .name = "max_silent_of_address",
         .help = "Connections of one address at once that have not sent a request to the control "
                 "port, or proved a lease to the data port. "
                 "One more closes the oldest of them.",
         .field = FIELD(rgpud, max_silent_of_address),
         .low = 1,
         .high = 4096},
        {.table = "rgpud",
         .name = "max_workers",
         .help = "Worker processes of one lease at once.",
         .field = FIELD(rgpud, max_workers),
         .low = 1,
         .high = 65536},
        {.table = "rgpud",
         .name = "worker_memory",
         .help = "Host memory that the workers of one lease may take together, beside twice the "
                 "GPU memory of the lease; 0 is no limit.",
         .field = FIELD(rgpud, worker_memory),
         .low = 0,
         .high = int64_t{1} << 44},
        {.table = "rgpud",
         .name = "worker_pids",
         .help = "Threads of one worker; those of one lease share what they have.",
         .field = FIELD(rgpud, worker_pids),
         .low = 64,
         .high = 65536},
        {.table = "rgpud",
         .name = "worker_cpu",
         .help = "Hundredths of a processor that the workers of one lease may use together for "
                 "each whole GPU; 0 is no limit. "
                 "Leases get processors that are short by their shares in any case.",
         .field = FIELD(rgpud, worker_cpu),
         .low = 0,
         .high = 1'000'000},
        {.table = "rgpud",
         .name = "worker_starts",
         .help = "Programs of one lease that get a worker in a second, once max_workers have "
                 "started at once; others wait.",
         .field = FIELD(rgpud, worker_starts),
         .low = 1,
         .high = 10000},
        {.table = "rgpud",
         .name = "confine_workers",
         .help = "Workers get a system call filter: for software GPUs it lists what is allowed, "
                 "for NVIDIA's driver what is denied. "
                 "Where there is a spawner, they get namespaces and a /dev of their own, too. "
                 "\"log\" has the kernel log what is in neither list and does not deny it; false "
                 "is for finding out "
                 "whether these keep a driver from working.",
         .field = FIELD(rgpud, confine_workers),
         .choices = {"true", "false", "log"}},
        {.table = "rgpud",
         .name = "nccl",
         .help = "The NCCL that programs with whole GPUs use on this host: \"auto\" finds "
                 "libnccl.so.2, a path names it, \"off\" offers none. It opens sockets to other "
                 "ranks that nobody authenticates.",
         .field = FIELD(rgpud, nccl)},
        {.table = "rgpud",
         .name = "nccl_interface",
         .help = "The network interfaces that NCCL uses, as NCCL_SOCKET_IFNAME names them; empty: "
                 "NCCL chooses.",
         .field = FIELD(rgpud, nccl_interface)},
        {.table = "rgpud",
         .name = "warm",
         .help = "Start a lease's worker, and make its context on the first GPU, before the "
                 "program comes.",
         .field = FIELD(rgpud, warm)},
        {.table = "rgpud",
         .name = "open_metrics",
         .help = "Give /metrics to other hosts, too.",
         .field = FIELD(rgpud, open_metrics)},
        {.table = "rgpud",
         .name = "metrics_names",
         .help =
             "Name jobs, users, accounts and nodes in /metrics (rgpu_lease_info). Without this, "
             "a lease has a number only.",
         .field = FIELD(rgpud, metrics_names)},
        {.table = "rgpud",
         .name = "energy",
         .help = "Count the energy of leases by NVML's counters. A process holds NVML open "
                 "meanwhile, which a reset of a GPU does not allow.",
         .field = FIELD(rgpud, energy)},
        {.table = "rgpud",
         .name = "max_kernel",
         .help = "A program whose kernel runs longer than this is ended; 0 is no limit.",
         .field = FIELD(rgpud, max_kernel),
         .low = 0,
         .high = ms(24h)},
        {.table = "rgpud",
         .name = "image_cache",
         .help = "Module images (PTX, cubins, fat binaries) kept for each user below state_dir, so "
                 "that programs "
                 "send them once; 0 keeps none.",
         .field = FIELD(rgpud, image_cache),
         .low = 0,
         .high = int64_t{1} << 44},
        {.table = "rgpud",
         .name = "qos_weights",
         .help = "Weights of Slurm's QOS, like \"high=4\": what tenants of a GPU leave over is "
                 "divided by share times weight. "
                 "A QOS that is not named weighs 1.",
         .field = FIELD(rgpud, qos_weights),
         .element = [](std::string_view entry) -> Result<void> {
             Result<QosWeight> weight = parse_qos_weight(entry);
             return weight ? Result<void>() : std::move(weight).error();
         }},

        {.table = "rgpud",
         .name = "squeue",
         .help = "Slurm's squeue, by which the leases of jobs that are gone end; empty: never ask. "
                 "Its user must see all jobs.",
         .field = FIELD(rgpud, squeue)},
        {.table = "rgpud",
         .name = "slurm_check",
         .help = "How often Slurm is asked which jobs still exist.",
         .field = FIELD(rgpud, slurm_check),
         .low = ms(1s),
         .high = ms(24h)},
        {.table = "rgpud",
         .name = "health_check",
         .help = "How often this host's health is looked at; nothing is lent while a check is "
                 "FATAL. 0 is never.",
         .field = FIELD(rgpud, health_check),
         .low = 0,
         .high = ms(24h)},
        {.table = "rgpud",
         .name = "health_ignore",
         .help = "Checks that are made and shown, and never keep the server from lending, like "
                 "\"Xid\" (rgpu health --all names them).",
         .field = FIELD(rgpud, health_ignore)},
        {.table = "rgpud",
         .name = "network_interface",
         .help = "The interface that clients come over, like \"eth0\": GPUs near its card are "
                 "preferred. Empty is that of the default route.",
         .field = FIELD(rgpud, network_interface)},

        {.table = "client",
         .name = "interposer_dir",
         .help = "Directory of the libcuda.so.1 that programs get.",
         .field = FIELD(client, interposer_dir),
         .needed = true},
        {.table = "client",
         .name = "library_path",
         .help = "Directories put behind it in a program's LD_LIBRARY_PATH, like the CUDA "
                 "Toolkit's lib64.",
         .field = FIELD(client, library_path)},
        {.table = "client",
         .name = "transport",
         .help = "How programs of rgpu run reach their server: auto (shared memory on one host, "
                 "else UCX where there is an RDMA device, else TCP), "
                 "tcp, shm or ucx; RGPU_TRANSPORT in a program's environment goes before it.",
         .field = FIELD(client, transport),
         .choices = {"auto", "tcp", "shm", "ucx"}},
        {.table = "client",
         .name = "compression",
         .help = "Whether programs of rgpu run and their server pack large copies: auto (over a "
                 "TCP link measured as slow, where the bytes shrink), "
                 "off, lz4 or zstd (over every TCP link); RGPU_COMPRESSION in a program's "
                 "environment goes before it.",
         .field = FIELD(client, compression),
         .choices = {"auto", "off", "lz4", "zstd"}},
        {.table = "client",
         .name = "connections",
         .help = "How many TCP connections carry the bytes of large copies of a program of rgpu "
                 "run: auto (4, where the server is on another host, once 16 MiB "
                 "were copied), 1, 2, 4, 8 or 16; RGPU_CONNECTIONS in a program's environment goes "
                 "before it.",
         .field = FIELD(client, connections),
         .choices = {"auto", "1", "2", "4", "8", "16"}},
        {.table = "client",
         .name = "server_timeout",
         .help = "A server that does not answer for this long counts as unreachable.",
         .field = FIELD(client, server_timeout),
         .low = ms(100ms),
         .high = ms(60s)},
        {.table = "client",
         .name = "wait",
         .help = "How long rgpu run waits for GPUs that are in use.",
         .field = FIELD(client, wait),
         .low = 0,
         .high = ms(24h * 365)},
        {.table = "client",
         .name = "term",
         .help = "Term of a lease of rgpu run, which renews it while it runs.",
         .field = FIELD(client, term),
         .low = ms(3s),
         .high = ms(24h * 365)},

        {.table = "slurm",
         .name = "rundir",
         .help = "Directory on compute nodes for the lease files of jobs.",
         .field = FIELD(slurm, rundir),
         .needed = true},
        {.table = "slurm",
         .name = "snapshot",
         .help = "File that rgpu slurm sync keeps and job_submit reads: how much the pool has.",
         .field = FIELD(slurm, snapshot),
         .needed = true},
        {.table = "slurm",
         .name = "reservation",
         .help = "Slurm's reservation in which rgpu slurm sync keeps the licences that the pool "
                 "cannot give now; empty: none.",
         .field = FIELD(slurm, reservation)},
        {.table = "slurm",
         .name = "wait",
         .help = "How long the controller's prolog waits for GPUs that are in use.",
         .field = FIELD(slurm, wait),
         .low = 0,
         .high = ms(24h * 365)},
        {.table = "slurm",
         .name = "lost_server",
         .help = "What becomes of a batch job whose server dies: requeue, hold (requeued and "
                 "held), or fail.",
         .field = FIELD(slurm, lost_server),
         .choices = {"requeue", "hold", "fail"}},
        {.table = "slurm",
         .name = "lost_after",
         .help = "A server that has not answered rgpu slurm sync for this long is lost to the jobs "
                 "that run with its GPUs.",
         .field = FIELD(slurm, lost_after),
         .low = ms(1s),
         .high = ms(24h)},
        {.table = "slurm",
         .name = "lost_avoid",
         .help = "A job that lost a server keeps away from it for this long, unless no other could "
                 "ever serve it.",
         .field = FIELD(slurm, lost_avoid),
         .low = 0,
         .high = ms(24h * 365)},
        {.table = "slurm",
         .name = "local_first",
         .help = "A job gets GPUs of the server on its own node ([[server]] node) where that can "
                 "give it all of them now; programs reach "
                 "these through shared memory.",
         .field = FIELD(slurm, local_first)},
        {.table = "slurm",
         .name = "gpus_mean_rgpu",
         .help = "Batch jobs that ask for GPUs in Slurm's own ways (--gpus, --gres=gpu:N, ...) get "
                 "GPUs of the pool, where no node has any of its own.",
         .field = FIELD(slurm, gpus_mean_rgpu)},
        {.table = "slurm",
         .name = "over_quota",
         .help = "Batch jobs that wait for their QOS's limit on GPUs use idle ones: rgpu slurm "
                 "preempt moves them to the QOS that theirs preempts, and back.",
         .field = FIELD(slurm, over_quota)},

        {.table = "pool",
         .name = "idle_warn",
         .help = "rgpu slurm sync tells a job in its output that it has not used its GPUs for this "
                 "long; 0: it does not.",
         .field = FIELD(pool, idle_warn),
         .low = 0,
         .high = ms(24h * 365)},
        {.table = "pool",
         .name = "idle_end",
         .help = "rgpu slurm sync ends a job that has not used its GPUs for this long; 0: it does "
                 "not.",
         .field = FIELD(pool, idle_end),
         .low = 0,
         .high = ms(24h * 365)},
        {.table = "pool",
         .name = "idle_action",
         .help = "How it ends them: requeue (and hold; what cannot be requeued is cancelled), or "
                 "cancel.",
         .field = FIELD(pool, idle_action),
         .choices = {"requeue", "cancel"}},
        {.table = "pool",
         .name = "idle_exempt",
         .help = "QOS whose jobs are neither warned nor ended.",
         .field = FIELD(pool, idle_exempt)},

        {.table = "web",
         .name = "listen",
         .help = "Where rgpu web serves its page: a loopback address and a port.",
         .field = FIELD(web, listen),
         .needed = true},
        {.table = "web",
         .name = "user_header",
         .help = "The header in which a proxy names the user, like \"X-Remote-User\"; empty: "
                 "whoever has the token sees all that rgpu web is told.",
         .field = FIELD(web, user_header)},
        {.table = "web",
         .name = "token_file",
         .help = "The token, one line of 32 characters or more, which a browser or the proxy must "
                 "show; empty: a new one at each start.",
         .field = FIELD(web, token_file)},
        {.table = "web",
         .name = "hosts",
         .help = "Names under which browsers ask for the page, besides those of loopback.",
         .field = FIELD(web, hosts)},
        {.table = "web",
         .name = "chart_library",
         .help = "Chart.js 3, for the page's charts; where it is missing, there are none.",
         .field = FIELD(web, chart_library)},
        {.table = "web",
         .name = "history",
         .help = "A folder for the pool's last day, which the page shows; it is made where it is "
                 "missing. Empty: it is kept in memory until rgpu web ends.",
         .field = FIELD(web, history)},
        {.table = "web",
         .name = "prometheus",
         .help = "A Prometheus that scrapes the servers, like \"http://localhost:9090\": the page "
                 "shows weeks and months by it. Empty: a day alone.",
         .field = FIELD(web, prometheus)},
    };
}

#undef FIELD
#undef SERVER_FIELD

}  // namespace

const std::vector<ConfigKey> &config_keys()
{
    static const std::vector<ConfigKey> table = keys();
    return table;
}

}  // namespace rgpu
