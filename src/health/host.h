// SPDX-License-Identifier: Apache-2.0
// What the health checks look at: one machine, and the limits that it is held against.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "util/result.h"

namespace rgpu::health {

// Every limit of every check, with its unit and its reason. Past the first of a pair a check says
// MARGINAL, past the second FATAL.
struct Limits {
    // Descriptors: rgpud holds two for each worker, a program one for each server.
    uint64_t open_files = 1024, fewest_open_files = 128;
    // Bytes that may be locked: pinned buffers of network cards count, those of NVIDIA's driver do
    // not.
    uint64_t locked_memory = uint64_t{64} << 20;
    // Bytes free in /dev/shm: NCCL and Python's multiprocessing put buffers there.
    uint64_t shared_memory = uint64_t{64} << 20;
    // Bytes and files free where rgpud keeps leases: a lease that cannot be written is not granted.
    uint64_t disk = uint64_t{1} << 30, least_disk = uint64_t{16} << 20;
    uint64_t disk_files = 1024, fewest_disk_files = 16;
    // Bytes of memory left: workers stage copies in pinned memory.
    uint64_t memory = uint64_t{512} << 20;
    // Bytes of a packet: Ethernet's own, and what links of 10 Gbit/s and more need to be filled.
    int mtu = 1500, fast_mtu = 9000;
    // Mbit/s from which a link counts as fast, and below which copies crawl.
    int fast_link = 10000;
    // Packets dropped or broken in a million; below so many packets nothing is said.
    double bad_packets = 10;
    uint64_t few_packets = 100000;
    // Degrees Celsius where the GPU does not tell its own; else so far below where it slows down,
    // and where it stops.
    int hot = 85, too_hot = 95, below_slowdown = 3;
    // Hours for which an Xid error that means a broken GPU keeps the server out.
    double xid_hours = 1;
    // The oldest CUDA version that programs of ours are built for.
    int cuda = 12040;
    // Releases of NVIDIA's driver: CUDA 12.4's own, and the first of CUDA 12, without which no
    // program of it starts.
    std::string_view driver = "550.54.14", least_driver = "525.60.13";
    // Bytes of host memory for each byte of GPU memory: programs' data passes through it, and a
    // suspended job's GPU memory goes there.
    double host_memory = 1;
    // The way to a server: seconds, bytes a second (twice what 1 Gbit/s can; one HTTP reply of 8
    // MiB itself reaches some 0.5 GB/s over loopback), seconds between the clocks (credentials are
    // good for a minute).
    double latency = 0.0005, bandwidth = 0.25e9, skew = 2, most_skew = 60;
};

// A GPU as NVML tells of it; -1: it does not tell.
struct GpuReading {
    int index = 0;
    std::string uuid, pci;
    int temperature = -1, slowdown = -1, shutdown = -1;  // degrees Celsius
    int power = -1;                                      // milliwatts
    int compute_mode = -1;  // as nvmlComputeMode_t: 0 default, 2 prohibited, 3 exclusive process
    int persistence = -1;   // 1: on
    int64_t ecc_uncorrected = -1;  // since the driver was loaded; -1 where ECC is off
    int remap_pending = -1, remap_failed = -1;
    std::vector<int> p2p,
        nvlink;  // with each GPU of the host, in NVML's order: nvmlGpuP2PStatus_t; 0 is OK
};

// What `rgpu-worker --readings` prints.
struct Readings {
    std::string why_not;  // why nothing could be read; empty: it could
    bool broken = false;  // NVML is there and does not start
    std::string driver;   // NVML's release, "580.65.06"
    int cuda = 0;         // the newest CUDA version that it knows; 13000
    std::vector<GpuReading> gpus;
};
// Fails with `invalid` where it is no such JSON.
Result<Readings> parse_readings(std::string_view json);

// Where the checks look. Paths of the system are below `root`; empty is this machine.
struct Host {
    std::string root;
    bool server = false;  // it lends GPUs
    Limits limits;

    // Of a server.
    std::string state_dir, worker;
    std::string settings;   // those that programs notice, for a person
    bool software = false;  // its GPUs are
    int cuda = 0;           // the version of the driver that is in use
    struct Gpu {
        int index = 0;
        std::string uuid, pci;
        uint64_t memory = 0;
        // As the driver says: 1 or 0; -1: it does not tell.
        int stream_memory_ops = -1, host_pointers = -1;
    };
    std::vector<Gpu> gpus;  // as found at start
    Readings readings;

    // Of a client.
    std::string interposer_dir;
    std::vector<std::string> library_path;
};

// A small file below the host's root without its last newline; empty where it cannot be read.
std::string text_of(const Host &host, const std::string &path);

}  // namespace rgpu::health
