// SPDX-License-Identifier: Apache-2.0
// rgpu.conf: everything an administrator can set, read once at start.
//
// The file is TOML. Each key, with its meaning, unit, range and default, stands in
// config_keys.cc and nowhere else: the reader, `rgpu config` and the test that compares
// rgpu.conf(5) all walk that table.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "util/defaults.h"
#include "util/result.h"
#include "util/units.h"

namespace rgpu {

// [[server]]: one rgpud of the pool, as its clients see it.
struct ServerEntry {
    std::string name;       // the same as that rgpud's [rgpud] name
    std::string address;    // host:port of its control port
    std::string node = {};  // the Slurm node on whose host it runs; empty in the file: as `name`;
                            // never empty after load
    std::string pin = {};   // of its key, or two with ';' between: it is asked in TLS
    std::string ca_file = {};  // who signed its certificate: it is asked in TLS, too
    unsigned name_line = 0;    // of the file
    unsigned pin_line = 0;     // 0: it has no pin
};

// [auth]
struct AuthConfig {
    std::string method = "munge";  // "munge", "key", "none"
    std::string key_file = "/etc/rgpu/rgpu.key";
    std::string munge_socket;  // empty: libmunge's own
    std::vector<std::string> admins = {"root", "slurm"};
};

// [rgpud]
struct RgpudConfig {
    std::string name;  // empty in the file: the host's short name; never empty after load
    std::string listen = "0.0.0.0";
    std::string tls = "offered";           // "offered", "required", "off": of the control port
    std::string tls_key, tls_certificate;  // empty: a key of rgpud's own
    int64_t control_port = defaults::kControlPort;
    int64_t data_port = defaults::kDataPort;
    std::string driver = "nvidia";  // "nvidia", "softgpu", "auto" or a path
    std::string lend = "all";       // "all", or "jobs": what rgpu lend holds
    int64_t softgpu_devices = defaults::kSoftgpuDevices;
    uint64_t softgpu_memory = defaults::kSoftgpuMemory;
    std::string softgpu_compute_capability = defaults::kSoftgpuComputeCapability;
    std::string softgpu_library = std::string(defaults::kLibraryDir) + "/softgpu/libcuda.so.1";
    std::string worker = std::string(defaults::kLibexecDir) + "/rgpu-worker";
    std::string worker_user;  // empty: root's leases get an id of worker_uids
    std::string worker_uids = defaults::kWorkerUids;
    std::string user = "rgpu";
    std::string spawner;  // empty: spawner.sock in state_dir
    std::string state_dir = "/var/lib/rgpu";
    Milliseconds offer_timeout = defaults::kOfferTimeout;
    Milliseconds max_term = defaults::kMaxTerm;
    Milliseconds handshake_timeout = defaults::kHandshakeTimeout;
    int64_t max_handshakes = defaults::kMaxHandshakes;
    int64_t max_silent_of_address = defaults::kMaxSilentOfAddress;
    int64_t max_workers = defaults::kMaxWorkers;
    uint64_t worker_memory = defaults::kWorkerMemory;
    int64_t worker_pids = defaults::kWorkerPids;
    int64_t worker_cpu = defaults::kWorkerCpu;
    int64_t worker_starts = defaults::kWorkerStarts;
    std::string confine_workers = "true";  // "true", "false", "log"
    std::string nccl = "off";              // "off", "auto", or the path of a libnccl.so.2
    std::string nccl_interface;            // NCCL_SOCKET_IFNAME of workers; empty: NCCL's choice
    bool warm = true;
    std::string encrypt = "auto";  // "auto", "true", "false": of data connections
    std::string audit = "off";     // "off", "text", "json"
    std::string audit_file;        // empty: the log
    std::string transport = "auto";
    bool open_metrics = false;
    bool metrics_names = false;
    bool energy = true;
    Milliseconds max_kernel = defaults::kMaxKernel;
    uint64_t image_cache = defaults::kImageCache;
    std::vector<std::string> qos_weights;  // "NAME=WEIGHT"
    std::string squeue = "/usr/bin/squeue";
    Milliseconds slurm_check = defaults::kSlurmCheck;
    Milliseconds health_check = defaults::kHealthCheck;
    std::vector<std::string> health_ignore;  // names of checks
    std::string network_interface;           // empty: that of the default route

    // The file of the control port's key.
    std::string control_key() const
    {
        return tls_key.empty() ? state_dir + "/control.key" : tls_key;
    }
};

// [client]
struct ClientConfig {
    std::string interposer_dir = std::string(defaults::kLibraryDir) + "/interpose";
    std::vector<std::string> library_path;
    std::string transport = "auto";
    std::string compression = "auto";
    std::string connections = "auto";
    Milliseconds server_timeout = defaults::kServerTimeout;
    Milliseconds wait = defaults::kWait;
    Milliseconds term = defaults::kTerm;
};

// [slurm]
struct SlurmConfig {
    std::string rundir = defaults::kRundir;
    std::string snapshot = defaults::kSnapshotPath;
    std::string reservation = "rgpu_missing";  // empty: none is kept
    Milliseconds wait = defaults::kWait;
    std::string lost_server = "requeue";  // "requeue", "hold", "fail"
    Milliseconds lost_after = defaults::kLostAfter;
    Milliseconds lost_avoid = defaults::kLostAvoid;
    bool local_first = false;
    bool gpus_mean_rgpu = false;
    bool over_quota = false;
};

// [pool]: what rgpu slurm sync does about jobs that do not use their GPUs.
struct PoolConfig {
    Milliseconds idle_warn{0};             // 0: nobody is warned
    Milliseconds idle_end{0};              // 0: none is ended
    std::string idle_action = "requeue";   // "requeue", "cancel"
    std::vector<std::string> idle_exempt;  // names of QOS
};

// [web]: the page of rgpu web.
struct WebConfig {
    std::string listen = defaults::kWebListen;
    std::string user_header;  // empty: nobody names users
    std::string token_file;   // empty: a new token at each start
    std::vector<std::string> hosts;
    std::string chart_library = defaults::kChartLibrary;
    std::string history;     // a folder; empty: in memory
    std::string prometheus;  // its address; empty: there is none
};

struct Config {
    std::string path;  // the file it was read from
    std::vector<ServerEntry> servers;
    AuthConfig auth;
    RgpudConfig rgpud;
    ClientConfig client;
    SlurmConfig slurm;
    PoolConfig pool;
    WebConfig web;
};

// A place in a Config (or in a ServerEntry) that one key fills.
using ConfigField = std::variant<std::string *, bool *, int64_t *, uint64_t *, Milliseconds *,
                                 std::vector<std::string> *>;

// What is known of one key. Ranges are in the field's own unit; equal ends mean no range.
struct ConfigKey {
    const char *table;  // "rgpud"; "server" keys repeat in each [[server]]
    const char *name;
    const char *help;
    std::function<ConfigField(Config &, ServerEntry &)> field;
    int64_t low = 0, high = 0;
    std::vector<const char *> choices = {};               // of a text; empty: anything
    bool needed = false;                                  // an empty text is refused
    Result<void> (*element)(std::string_view) = nullptr;  // of a list: fails for one that is wrong
};

const std::vector<ConfigKey> &config_keys();

// The type of a field in words: "text", "list of texts", "yes or no", "number", "size", "time".
const char *type_of(const ConfigField &field);

// A field as it would be written in the file: "\"5s\"", "true", "[\"root\"]".
std::string written(const ConfigField &field);

// An entry of qos_weights, "high=4": the weight in hundredths, 1 (0.01) to 100000 (1000).
struct QosWeight {
    std::string qos;
    int hundredths = 100;
};
Result<QosWeight> parse_qos_weight(std::string_view entry);

// worker_uids, "2000000000-2000065535": at least 16 ids from 1000 on.
struct UidRange {
    uint32_t low = 0, high = 0;
};
Result<UidRange> parse_uid_range(const std::string &text);

// A server's pin: "sha256//" and 44 letters of base64, several with ';' between.
Result<void> check_pin(std::string_view text);

// Which file: `option` (a --config option) when it is not empty, else $RGPU_CONF, else the default.
std::string config_path(std::string_view option = {});

// Reads and checks the file. An unknown key, a wrong type or a value out of range is an Error
// with the file's name, the line, and what would be right; so is a file that cannot be read.
Result<Config> load_config(const std::string &path);

// The same of text; `path` is only named in errors.
Result<Config> parse_config(std::string_view text, const std::string &path);

// "host:port" or "[v6]:port", split; the port must be 1..65535.
struct HostPort {
    std::string host;
    int port = 0;
};
Result<HostPort> parse_address(std::string_view address);

// The host is 127.0.0.0/8, ::1 or "localhost".
bool is_loopback(std::string_view host);

}  // namespace rgpu
