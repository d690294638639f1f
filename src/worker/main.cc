// rgpu-worker: makes the driver calls of one client. rgpud starts it with the client's socket as
// descriptor 3, or with a channel on which it waits for one; it ends when the connection does.
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cerrno>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "net/transport/openssl.h"
#include "net/transport/tunnel.h"
#include "serverd/handover.h"
#include "util/version.h"
#include "worker/connection/control.h"
#include "worker/dispatch/dispatcher.h"
#include "worker/driver/driver.h"
#include "worker/driver/warm.h"
#include "worker/host/readings.h"
#include "worker/host/snapshot.h"
#include "worker/limits/confine.h"
#include "worker/limits/memory_cap.h"

namespace {

using namespace rgpu;

// What rgpud gives it: the client's connection (or the channel that it comes by), its own control
// socket, the lease's memory account. From 6 on its places at the GPUs' boards (turns.h).
constexpr int kSocket = 3, kControl = 4, kAccount = 5;

constexpr char kHelp[] =
    "usage: rgpu-worker [--inventory | --readings | --help | --version]\n"
    "\n"
    "Makes the CUDA driver calls of one rgpu client. rgpud starts it, with the client's\n"
    "connection as descriptor 3; it is not meant to be started by hand.\n"
    "\n"
    "  --inventory   print the GPUs of the driver as JSON and end\n"
    "  --readings    print what NVML says of the host's GPUs as JSON and end\n"
    "  --help        print this and end\n"
    "  --version     print the version and end\n"
    "\n"
    "Environment: RGPU_DRIVER (path of the libcuda.so.1 to use), CUDA_VISIBLE_DEVICES (UUIDs),\n"
    "RGPU_WORKER_MEMORY (cap of each of them),\n"
    "RGPU_WORKER_PLACES, RGPU_WORKER_LEASE_GPUS (place in the lease, where they are not all of its "
    "GPUs),\n"
    "RGPU_WORKER_BOARDS, RGPU_WORKER_SHARE, RGPU_WORKER_WEIGHT, RGPU_WORKER_MAX_KERNEL (turns on "
    "the\n"
    "GPUs: descriptors of places, what the lease may have, milliseconds), RGPU_WORKER_IMAGES,\n"
    "RGPU_WORKER_IMAGES_BYTES (where module images are kept, and how much of them),\n"
    "RGPU_WORKER_LEASE, RGPU_WORKER_SERVER (for messages), RGPU_WORKER_CLIENT_TABLE (digest of "
    "the\n"
    "client's call table), RGPU_WORKER_WARM (the client comes later), RGPU_WORKER_DUMPABLE\n"
    "(other workers of its user may see its memory), RGPU_WORKER_CONFINE (the system call\n"
    "filter: 0 for none, software for what a software GPU needs, log to have others logged),\n"
    "RGPU_WORKER_KEY (descriptor with the key of an encrypted connection),\n"
    "RGPU_WORKER_METER (descriptor of the file that counts what the lease uses),\n"
    "RGPU_WORKER_UCX (offers of UCX are taken), RGPU_UCX_* (its settings),\n"
    "RGPU_SOFTGPU_* (the software GPU's settings).\n"
    "\n"
    "Exit status: 0 the client ended, 1 the driver does not start, 2 wrong use, 3 the client sent "
    "what no\n"
    "client may, 4 a kernel ran past the limit.\n";

// Of a client that is there already.
uint64_t client_table()
{
    const char *digest = getenv("RGPU_WORKER_CLIENT_TABLE");
    return digest ? strtoull(digest, nullptr, 16) : 0;
}

enum class Use { inventory, client };

Result<void> start_driver(Use use)
{
    const char *path = getenv("RGPU_DRIVER");
    auto opened = worker::Driver::open(path && *path ? path : "libcuda.so.1");
    if (!opened) return std::move(opened).error();
    if (use != Use::inventory)
        if (auto enforced = worker::enforce_memory_cap(*opened, kAccount); !enforced)
            return enforced;
    worker::set_driver(*opened);
    return {};
}

// Whether an offer of UCX is taken.
bool takes_ucx() { return getenv("RGPU_WORKER_UCX") && !getenv("RGPU_WORKER_KEY"); }

// Before the driver is opened and anything of the client's is read.
bool confined(worker::Sockets sockets = worker::Sockets::denied)
{
    const char *told = getenv("RGPU_WORKER_CONFINE");
    if (told && !strcmp(told, "0")) return true;
    const auto filter = told && !strcmp(told, "software") ? worker::Filter::software
                        : told && !strcmp(told, "log")    ? worker::Filter::logs
                                                          : worker::Filter::denies_by_name;
    auto r = worker::confine(filter, sockets);
    if (!r)
        fprintf(stderr, "rgpu-worker: %s; see [rgpud] confine_workers in rgpu.conf\n",
                r.error().text.c_str());
    return r.has_value();
}

int inventory()
{
    if (!confined()) return 1;
    auto started = start_driver(Use::inventory);
    auto json = started ? worker::inventory_json()
                        : Result<std::string>(std::move(started).error());
    if (!json) {
        fprintf(stderr, "rgpu-worker: %s\n", json.error().text.c_str());
        return 1;
    }
    fputs(json->c_str(), stdout);
    return 0;
}

int readings()
{
    if (!confined()) return 1;
    fputs(worker::readings_json().c_str(), stdout);
    return 0;
}

constexpr auto kTunnelTimeout = std::chrono::seconds(10);

// Where frames come from and go to: the client's connection, or the near end of a tunnel around it.
struct Connection {
    int fd = kSocket;
    std::shared_ptr<net::Tunnel> tunnel;

    // Before the process ends: what was sent is sent.
    void finish() const
    {
        if (tunnel) tunnel->finish(fd);
    }
};

Result<void> open_tunnel(Connection &connection)
{
    const char *where = getenv("RGPU_WORKER_KEY");
    if (!where) return {};
    Fd from(atoi(where));
    Digest key;
    if (read(from.get(), key.data(), key.size()) != static_cast<ssize_t>(key.size()))
        return error(ErrorKind::internal, "no key from rgpud");
    auto tunnel = net::Tunnel::open(Fd(kSocket), net::Side::server, key, net::common_openssl,
                                    net::Clock::now() + kTunnelTimeout);
    if (!tunnel) return std::move(tunnel).error();
    connection.fd = (*tunnel)->take_plain().release();
    connection.tunnel = std::move(*tunnel);
    return {};
}

int refuse(const Error &error)
{
    const char *lease = getenv("RGPU_WORKER_LEASE");
    fprintf(stderr, "rgpu-worker: lease %.8s: connection closed: %s\n", lease ? lease : "?",
            error.text.c_str());
    return error.kind == ErrorKind::disconnected ? 0 : 3;
}

int serve(Connection &connection)
{
    signal(SIGPIPE, SIG_IGN);  // stderr is rgpud's, which may have ended
    if (!confined(takes_ucx() ? worker::Sockets::until_settled : worker::Sockets::denied)) return 1;
    worker::serve_control(kControl);
    if (auto opened = open_tunnel(connection); !opened) return refuse(opened.error());
    static worker::Console &console = *new worker::Console;
    if (!console.capture()) fprintf(stderr, "rgpu-worker: cannot capture what kernels print: %m\n");
    auto started = start_driver(Use::client);
    auto snapshot = started ? worker::take_snapshot()
                            : Result<wire::Snapshot>(std::move(started).error());
    uint64_t table = client_table();
    Fd channel;
    std::unique_ptr<net::UcxTransport> ucx;
    if (getenv("RGPU_WORKER_WARM")) {
        if (takes_ucx())  // where it fails now, it is asked again when there is an offer
            if (auto opened = net::UcxTransport::open()) ucx = std::move(*opened);
        auto visitor = serverd::take_over(kSocket, [&] {
            if (snapshot) worker::prepare_context();
        });
        if (!visitor) return 0;
        channel.reset(fcntl(kSocket, F_DUPFD_CLOEXEC, 0));
        dup2(visitor->socket.get(), kSocket);
        table = visitor->table_digest;
    }
    static worker::Dispatcher &dispatcher = *new worker::Dispatcher(connection.fd, console);
    worker::Session &session = dispatcher.session;
    if (takes_ucx()) dispatcher.take_ucx(std::move(ucx));
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
    auto r = dispatcher.run();
    return r ? 0 : refuse(r.error());
}

// Others of this user read and write its memory no more, nor open its descriptors. Where GPUs are
// software its job's other workers must: CUDA IPC goes through /proc/PID/fd there. NVIDIA's driver
// passes what it shares by itself.
void hide_memory()
{
    if (!getenv("RGPU_WORKER_DUMPABLE")) prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
}

}  // namespace

int main(int argc, char **argv)
{
    hide_memory();
    int status = 2;
    if (argc == 1 && lseek(kSocket, 0, SEEK_CUR) == -1 && errno == ESPIPE) {
        static Connection &connection = *new Connection;
        status = serve(connection);
        connection.finish();
    } else if (argc == 2 && !strcmp(argv[1], "--inventory")) {
        status = inventory();
    } else if (argc == 2 && !strcmp(argv[1], "--readings")) {
        status = readings();
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
