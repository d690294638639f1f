// SPDX-License-Identifier: Apache-2.0
// rgpu-worker: makes the driver calls of one client. rgpud starts it with the client's socket as
// descriptor 3, or with a channel on which it waits for one; it ends when the connection does.
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "net/transport/openssl.h"
#include "net/transport/tunnel.h"
#include "serverd/handover.h"
#include "serverd/worker_start.h"
#include "util/version.h"
#include "worker/bands/bands.h"
#include "worker/connection/control.h"
#include "worker/connection/mailbox.h"
#include "worker/dispatch/dispatcher.h"
#include "worker/driver/driver.h"
#include "worker/driver/warm.h"
#include "worker/host/energy.h"
#include "worker/host/readings.h"
#include "worker/host/snapshot.h"
#include "worker/limits/confine.h"
#include "worker/limits/memory_cap.h"
#include "worker/limits/metering.h"
#include "worker/nccl/library.h"

namespace {

using namespace rgpu;
using serverd::WorkerStart;

constexpr char kHelp[] =
    "usage: rgpu-worker [--inventory | --readings | --energy | --help | --version]\n"
    "\n"
    "Makes the CUDA driver calls of one rgpu client. rgpud starts it, with the client's\n"
    "connection as descriptor 3; it is not meant to be started by hand.\n"
    "\n"
    "  --inventory   print the GPUs of the driver as JSON and end\n"
    "  --readings    print what NVML says of the host's GPUs as JSON and end\n"
    "  --energy      print the GPUs' energy counters for each byte of descriptor 3\n"
    "  --help        print this and end\n"
    "  --version     print the version and end\n"
    "\n"
    "Environment: RGPU_DRIVER (path of the libcuda.so.1 to use), CUDA_VISIBLE_DEVICES (UUIDs),\n"
    "RGPU_WORKER_* (what rgpud says of the lease: src/serverd/worker_start.h),\n"
    "RGPU_UCX_* (UCX's settings),\n"
    "RGPU_SOFTGPU_* (the software GPU's settings).\n"
    "\n"
    "Exit status: 0 the client ended, 1 the driver does not start, 2 wrong use, 3 the client sent "
    "what no\n"
    "client may, 4 a kernel ran past the limit.\n";

enum class Use { inventory, client };

Result<void> start_driver(Use use, const WorkerStart &start)
{
    const char *path = getenv("RGPU_DRIVER");
    auto opened = worker::Driver::open(path && *path ? path : "libcuda.so.1");
    if (!opened) return std::move(opened).error();
    if (use != Use::inventory) {
        if (auto enforced = worker::enforce_memory_cap(*opened, serverd::kAccountDescriptor, start);
            !enforced)
            return enforced;
        worker::put_bands_in_front(*opened, start.lease);
    }
    worker::set_driver(*opened);
    return {};
}

// Whether an offer of UCX is taken.
bool takes_ucx(const WorkerStart &start)
{
    return start.takes_ucx && start.key == serverd::kNoDescriptor;
}

worker::Filter filter_of(serverd::Confinement confinement)
{
    switch (confinement) {
    case serverd::Confinement::software: return worker::Filter::software;
    case serverd::Confinement::log: return worker::Filter::logs;
    default: return worker::Filter::denies_by_name;
    }
}

worker::Sockets sockets_of(const WorkerStart &start)
{
    using enum worker::Sockets;
    if (worker::nccl::is_allowed(start))
        return takes_ucx(start) ? ucx_until_connected_and_nccl : nccl;
    return takes_ucx(start) ? until_connected : connect_until_connected;
}

// Before the driver is opened and anything of the client's is read.
bool confined(const WorkerStart &start, worker::Sockets sockets = worker::Sockets::denied)
{
    if (start.confinement == serverd::Confinement::none) return true;
    auto r = worker::confine(filter_of(start.confinement), sockets);
    if (!r)
        fprintf(stderr, "rgpu-worker: %s; see [rgpud] confine_workers in rgpu.conf\n",
                r.error().text.c_str());
    return r.has_value();
}

int inventory(const WorkerStart &start)
{
    if (!confined(start)) return 1;
    auto started = start_driver(Use::inventory, start);
    auto json = started ? worker::inventory_json()
                        : Result<std::string>(std::move(started).error());
    if (!json) {
        fprintf(stderr, "rgpu-worker: %s\n", json.error().text.c_str());
        return 1;
    }
    fputs(json->c_str(), stdout);
    return 0;
}

int readings(const WorkerStart &start)
{
    if (!confined(start)) return 1;
    fputs(worker::readings_json().c_str(), stdout);
    return 0;
}

int energy(const WorkerStart &start) { return confined(start) ? worker::serve_energy() : 1; }

constexpr auto kTunnelTimeout = std::chrono::seconds(10);

// Where frames come from and go to: the client's connection, or the near end of a tunnel around it.
struct Connection {
    int fd = serverd::kSocketDescriptor;
    std::shared_ptr<net::Tunnel> tunnel;

    // Before the process ends: what was sent is sent.
    void finish() const
    {
        if (tunnel) tunnel->finish(fd);
    }
};

// The key of a client that is there already, if its connection is encrypted.
Result<std::optional<Digest>> read_key(const WorkerStart &start)
{
    if (start.key == serverd::kNoDescriptor) return std::optional<Digest>();
    Fd from(start.key);
    Digest key;
    if (read(from.get(), key.data(), key.size()) != static_cast<ssize_t>(key.size()))
        return error(ErrorKind::internal, "no key from rgpud");
    return std::optional(key);
}

Result<void> open_tunnel(Connection &connection, const Digest &key)
{
    auto tunnel = net::Tunnel::open(Fd(serverd::kSocketDescriptor), net::Side::server, key,
                                    net::common_openssl, net::Clock::now() + kTunnelTimeout);
    if (!tunnel) return std::move(tunnel).error();
    connection.fd = (*tunnel)->take_plain().release();
    connection.tunnel = std::move(*tunnel);
    return {};
}

int refuse(const WorkerStart &start, const Error &error)
{
    fprintf(stderr, "rgpu-worker: lease %.8s: connection closed: %s\n",
            start.lease.empty() ? "?" : start.lease.c_str(), error.text.c_str());
    return error.kind == ErrorKind::disconnected ? 0 : 3;
}

// A software GPU's memory is a file for each piece.
void take_all_descriptors()
{
    rlimit files{};
    if (getrlimit(RLIMIT_NOFILE, &files)) return;
    files.rlim_cur = files.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &files);
}

int serve(Connection &connection, const WorkerStart &start)
{
    signal(SIGPIPE, SIG_IGN);  // stderr is rgpud's, which may have ended
    take_all_descriptors();
    worker::Mailbox::here().open();
    if (!confined(start, sockets_of(start))) return 1;
    if (start.meter != serverd::kNoDescriptor)
        worker::Metering::here().open(start.meter, start.places);
    worker::serve_control(serverd::kControlDescriptor, start.lease);
    const auto key = read_key(start);
    if (!key) return refuse(start, key.error());
    if (*key)
        if (auto opened = open_tunnel(connection, **key); !opened)
            return refuse(start, opened.error());
    static worker::Console &console = *new worker::Console;
    if (!console.capture()) fprintf(stderr, "rgpu-worker: cannot capture what kernels print: %m\n");
    auto started = start_driver(Use::client, start);
    auto snapshot = started ? worker::take_snapshot(start.server)
                            : Result<wire::Snapshot>(std::move(started).error());
    uint64_t table = start.client_table;
    Fd channel;
    std::unique_ptr<net::UcxTransport> ucx;
    if (start.waits) {
        if (takes_ucx(start))  // where it fails now, it is asked again when there is an offer
            if (auto opened = net::UcxTransport::open()) ucx = std::move(*opened);
        auto visitor = serverd::take_over(serverd::kSocketDescriptor, [&] {
            if (snapshot) worker::prepare_context();
        });
        if (!visitor) return 0;
        if (snapshot) worker::renew(*snapshot);
        channel.reset(fcntl(serverd::kSocketDescriptor, F_DUPFD_CLOEXEC, 0));
        dup2(visitor->socket.get(), serverd::kSocketDescriptor);
        table = visitor->client.table_digest;
        if (const auto &own = visitor->client.key)
            if (auto opened = open_tunnel(connection, *own); !opened)
                return refuse(start, opened.error());
    }
    static worker::Dispatcher &dispatcher = *new worker::Dispatcher(connection.fd, console, start);
    worker::Session &session = dispatcher.session;
    if (takes_ucx(start) && !connection.tunnel) dispatcher.take_ucx(std::move(ucx));
    dispatcher.close_later(std::move(channel));
    if (!snapshot) {
        fprintf(stderr, "rgpu-worker: %s\n", snapshot.error().text.c_str());
        session.sender.snapshot(CUDA_ERROR_SYSTEM_NOT_READY, {});
        return 1;
    }
    if (table != calls::table_digest()) worker::name_calls(*snapshot);
    snapshot->keeps_images = session.images.keeps();
    snapshot->images = session.images.tags();
    session.sender.snapshot(CUDA_SUCCESS, wire::encode(*snapshot));
    if (worker::nccl::is_allowed(start)) worker::Sender::before_end(worker::nccl::remove_files);
    auto r = dispatcher.run();
    if (worker::nccl::is_allowed(start)) worker::nccl::remove_files();
    return r ? 0 : refuse(start, r.error());
}

// Others of this user read and write its memory no more, nor open its descriptors. Where GPUs are
// software its job's other workers must: CUDA IPC goes through /proc/PID/fd there. NVIDIA's driver
// passes what it shares by itself.
void hide_memory(const WorkerStart &start)
{
    if (!start.dumpable) prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
}

}  // namespace

int main(int argc, char **argv)
{
    const auto told = serverd::decode_worker_start([](const char *name) { return getenv(name); });
    const WorkerStart start = told ? *told : WorkerStart();
    hide_memory(start);
    int status = 2;
    if (!told) {
        fprintf(stderr, "rgpu-worker: %s\n", told.error().text.c_str());
        status = 1;
    } else if (argc == 1 && lseek(serverd::kSocketDescriptor, 0, SEEK_CUR) == -1 &&
               errno == ESPIPE) {
        static Connection &connection = *new Connection;
        status = serve(connection, start);
        connection.finish();
        worker::Mailbox::here().close();
    } else if (argc == 2 && !strcmp(argv[1], "--inventory")) {
        status = inventory(start);
    } else if (argc == 2 && !strcmp(argv[1], "--readings")) {
        status = readings(start);
    } else if (argc == 2 && !strcmp(argv[1], "--energy")) {
        status = energy(start);
    } else if (argc == 2 && !strcmp(argv[1], "--help")) {
        fputs(kHelp, stdout);
        status = 0;
    } else if (argc == 2 && !strcmp(argv[1], "--version")) {
        puts(version_line("rgpu-worker").c_str());
        status = 0;
    } else {
        fputs(kHelp, stderr);
    }
    fflush(nullptr);
    _exit(status);  // no destructors: threads that wait for the GPU may still be there
}
