// SPDX-License-Identifier: Apache-2.0
// Every default of rgpu, with its unit, its range and the reason for it.
//
// The keys of rgpu.conf that change them are in config_keys.cc.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace rgpu::defaults {

using namespace std::chrono_literals;
using Milliseconds = std::chrono::milliseconds;

// Where rgpu.conf is. RGPU_CONF in the environment goes before it.
#ifdef RGPU_SYSCONFDIR
inline constexpr const char *kConfigPath = RGPU_SYSCONFDIR "/rgpu.conf";
#else
inline constexpr const char *kConfigPath = "/etc/rgpu/rgpu.conf";
#endif
#ifdef RGPU_LIBDIR
inline constexpr const char *kLibraryDir = RGPU_LIBDIR;
#else
inline constexpr const char *kLibraryDir = "/usr/local/lib/rgpu";
#endif
#ifdef RGPU_LIBEXECDIR
inline constexpr const char *kLibexecDir = RGPU_LIBEXECDIR;
#else
inline constexpr const char *kLibexecDir = "/usr/local/libexec";
#endif

// --- Slurm
// Lease files of jobs, on compute nodes; gone after a boot, as the jobs are.
inline constexpr const char *kRundir = "/run/rgpu";
// The size of the pool for job_submit_rgpu.so; RGPU_SNAPSHOT in slurmctld's environment goes before
// it.
inline constexpr const char *kSnapshotPath = "/run/rgpu/pool.snapshot";

// A server is lost to the jobs that hold its GPUs when it has not answered for this long (1 s to 24
// h): rgpud may be restarted or upgraded, and a host may boot, meanwhile.
inline constexpr Milliseconds kLostAfter = 5min;
// The next run of a job keeps away from a server that the job lost for this long (0 to 365 d): one
// that falls again and again would take the same job each time.
inline constexpr Milliseconds kLostAvoid = 1h;

// --- ports (0..65535; 0 lets the kernel choose, for tests)
inline constexpr int64_t kControlPort = 7710;  // neither is assigned by IANA
inline constexpr int64_t kDataPort = 7711;
inline constexpr const char *kWebListen = "127.0.0.1:7712";

// --- the page of rgpu web: Debian's libjs-chart.js
inline constexpr const char *kChartLibrary = "/usr/share/javascript/chart.js/chart.min.js";

// --- packed copies (net/packing/packer.h)
// A link that brings fewer bytes a second is slow: one processor packs faster than that, with lz4
// and in most cases. 2.5 Gbit/s Ethernet brings 290 MB/s, 10 Gbit/s 1170.
inline constexpr uint64_t kSlowLink = 300'000'000;

// --- rgpud
// An offer holds its GPUs for this long (1 s to 60 s). A client needs one more round trip to
// accept; five seconds leave room for a slow server among those it waits for.
inline constexpr Milliseconds kOfferTimeout = 5s;
// Longest term of a lease before it must be renewed (1 s to 365 d; 0: no limit).
inline constexpr Milliseconds kMaxTerm = 0s;
// A client must prove that it holds a lease within this time (100 ms to 60 s).
inline constexpr Milliseconds kHandshakeTimeout = 5s;
// Connections that have not proved anything yet (1 to 4096): each costs a thread.
inline constexpr int64_t kMaxHandshakes = 64;
// Worker processes of one lease (1 to 65536): one per client process. A tenant that forks
// without end must not take the host's processes.
inline constexpr int64_t kMaxWorkers = 256;
// User ids of jobs whose owners a host does not know: above those that useradd gives to containers
// (SUB_UID_MAX 600100000) and systemd-nspawn takes (up to 1879048191), below 2^31.
inline constexpr const char *kWorkerUids = "2000000000-2000065535";
// Below it are a host's own accounts (UID_MIN of login.defs(5)): no worker runs as one of them.
inline constexpr uint32_t kFirstUser = 1000;
// What the workers of one lease may take of the host. Memory beside twice the lease's GPU memory (0
// to 16T; 0: no limit): a worker with NVIDIA's driver takes half a GiB, and staging buffers and
// modules as much again. Software GPUs' memory is the host's, and so are copies of what kernels and
// the program share.
inline constexpr uint64_t kWorkerMemory = uint64_t{8} << 30;
// Threads of one worker (64 to 65536): it makes 1024 at most for a client that waits in as many
// places, and one for each processor.
inline constexpr int64_t kWorkerPids = 2048;
// Hundredths of a processor for each whole GPU (0 to 1000000; 0: no limit): what others leave over
// is anybody's (doc/sharing.md).
inline constexpr int64_t kWorkerCpu = 0;
// Workers of one lease that start in a second, once max_workers have started (1 to 10000): a host
// starts some hundred a second in all.
inline constexpr int64_t kWorkerStarts = 32;
// Lines that the workers of one lease write to rgpud's log in a second, once kLogLinesAtOnce were
// written.
inline constexpr int kLogLines = 10, kLogLinesAtOnce = 200;
// A lease whose holder's connection closed ends after this, unless it is renewed: the holder may be
// alive, and its connection alone gone.
inline constexpr Milliseconds kHolderGrace = 5s;
// What programs on a withdrawn GPU still have unless rgpu lend is told another time: less than
// Slurm's KillWait (30 s), in which rgpu lend must see their end.
inline constexpr Milliseconds kLendGrace = 25s;
// After its start rgpud gives those who lent it GPUs this long to say so again (they try each
// second).
inline constexpr Milliseconds kLendReturn = 15s;
// How often Slurm is asked which jobs still exist (1 s to 24 h): one question for all of them.
inline constexpr Milliseconds kSlurmCheck = 60s;
// Between SIGTERM and SIGKILL for the workers of a lease that ended.
inline constexpr Milliseconds kKillAfter = 1s;
// How long a server holds another size of a lease that is to be kept or undone: the other servers
// of the lease's job are asked meanwhile.
inline constexpr Milliseconds kHeldSize = 10s;
inline constexpr Milliseconds kReleaseWait =
    500ms;  // ... for its workers, before a release is answered
// A kernel that runs longer ends its program (0: no limit). Kernels cannot be interrupted, so the
// others wait for it.
inline constexpr Milliseconds kMaxKernel = 0s;
// Module images kept on disk for each user, bytes (0: none): a framework's are some hundred MiB.
inline constexpr uint64_t kImageCache = uint64_t{2} << 30;
// What one control request may be: every valid one is below 4 KiB.
inline constexpr size_t kMaxRequestBody = 64 * 1024;
inline constexpr size_t kMaxRequestTarget = 512;
inline constexpr size_t kMaxRequestHead = 16 * 1024;
inline constexpr size_t kMaxRequestFields = 64;  // header fields; a browser sends some twenty
// All of a request must be here within this time, and the next one on its connection.
inline constexpr Milliseconds kRequestTime = 5s;
// An answer must be taken within this time: 8 MiB at 10 Mbit/s.
inline constexpr Milliseconds kAnswerTime = 10s;
// Bytes of answers that wait for slow readers, all together: past it the largest goes.
inline constexpr size_t kMaxUntaken = 32 * 1024 * 1024;
// Threads that answer at the control port, and connections that it has at once.
inline constexpr size_t kControlThreads = 16;
inline constexpr size_t kControlConnections = 1024;
// Connections of one address that have not said yet what they want, at each port (1 to 4096): many
// nodes of a cluster may come from one address (NAT), each of which says so at once. One quarter of
// the control port's leaves room for others.
inline constexpr int64_t kMaxSilentOfAddress = 256;
// Limits of one request and of what rgpud holds: bounded memory, whoever asks.
inline constexpr int kMaxGpusOfRequest = 1024;
inline constexpr size_t kMaxOffers = 4096;
inline constexpr size_t kMaxOffersOfUser = 64;
inline constexpr size_t kMaxLeases = 65536;
inline constexpr size_t kMaxText = 255;  // bytes of a job id, a node's or a host's name
// rgpu-worker --inventory opens the driver, which takes seconds on a host of many GPUs.
inline constexpr Milliseconds kInventoryTimeout = 60s;

// How often rgpud looks at its host's health (1 s to 24 h; 0: never).
inline constexpr Milliseconds kHealthCheck = 60s;
// rgpu-worker --readings asks NVML, whose start takes seconds where the driver must start first.
inline constexpr Milliseconds kReadingsTimeout = 30s;
inline constexpr size_t kMaxReadings = 1024 * 1024;
// Bytes that rgpu health fetches at most to measure the way to a server.
inline constexpr size_t kMaxProbe = size_t{8} << 20;

// --- software GPUs
inline constexpr int64_t kSoftgpuDevices = 2;                  // 0 to 64
inline constexpr uint64_t kSoftgpuMemory = uint64_t{2} << 30;  // bytes of each
inline constexpr const char *kSoftgpuComputeCapability = "8.0";

// --- authentication
// Clocks of client and server may differ by this much with method "key" (1 s to 1 h).
inline constexpr Milliseconds kKeyWindow = 60s;
inline constexpr size_t kMaxKeyNonces = 100000;  // requests remembered in the window
inline constexpr size_t kMinKeyBytes = 32;       // shorter keys are refused

// --- clients
// A server that says nothing for this long is taken as unreachable (100 ms to 60 s).
inline constexpr Milliseconds kServerTimeout = 3s;
inline constexpr size_t kMaxReplyBody = 64 * 1024 * 1024;
// rgpu run and the prolog wait this long for GPUs that are in use ("--wait", 0 to 365 d).
inline constexpr Milliseconds kWait = 30min;
// They ask again after a pause that doubles from the first to the last, with jitter of a quarter.
inline constexpr Milliseconds kFirstPause = 100ms;
inline constexpr Milliseconds kLastPause = 5s;
// Term of a lease of rgpu run (3 s to 365 d), renewed at each third of it: a client that dies
// gives its GPUs back after it.
inline constexpr Milliseconds kTerm = 60s;

}  // namespace rgpu::defaults
