// SPDX-License-Identifier: Apache-2.0
// rgpud: leases this host's GPUs and starts a worker for each program that uses them.
#include <fcntl.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "pool/credentials/auth.h"
#include "rgpud/host/driver.h"
#include "rgpud/host/energy_watch.h"
#include "rgpud/host/privileges.h"
#include "rgpud/leases/health_watch.h"
#include "rgpud/leases/job_watch.h"
#include "rgpud/leases/service.h"
#include "rgpud/leases/sqlite_store.h"
#include "rgpud/ports/control.h"
#include "rgpud/ports/data_port.h"
#include "rgpud/ports/metrics.h"
#include "rgpud/workers/spawner_start.h"
#include "util/config.h"
#include "util/log.h"
#include "util/version.h"

namespace rgpu::serverd {
namespace {

// How late a lease's end may be noticed when nothing else wakes the main thread.
constexpr Milliseconds kLook{250};

// Its unit is started just before.
constexpr Milliseconds kSpawnerStarts{10'000};

struct Options {
    std::string config, ready_file;
    bool check = false, verbose = false, spawner = false;
};

constexpr char kHelp[] =
    "Usage: rgpud [OPTION]...\n"
    "Leases this host's GPUs over the network. Stays in the foreground and logs to stderr.\n"
    "\n"
    "  -c, --config FILE      read FILE ($RGPU_CONF, else %s)\n"
    "      --check            check the configuration and the driver, say what was found, and end\n"
    "      --spawner          become rgpu-spawner, as FILE has it: for root\n"
    "      --ready-file FILE  when both ports listen, write their numbers and the pid to FILE as "
    "JSON\n"
    "  -v, --verbose          log requests, too\n"
    "  -h, --help             show this\n"
    "  -V, --version          show the version\n"
    "\n"
    "SIGTERM and SIGINT end it. See rgpud(8), rgpu.conf(5).\n";

// The exit status when the command line asks for nothing but words, or is wrong.
std::optional<int> read_options(int argc, char **argv, Options &options)
{
    enum { kCheck = 256, kReadyFile, kSpawner };
    const option known[] = {{"config", required_argument, nullptr, 'c'},
                            {"check", no_argument, nullptr, kCheck},
                            {"spawner", no_argument, nullptr, kSpawner},
                            {"ready-file", required_argument, nullptr, kReadyFile},
                            {"verbose", no_argument, nullptr, 'v'},
                            {"help", no_argument, nullptr, 'h'},
                            {"version", no_argument, nullptr, 'V'},
                            {}};
    for (int c; (c = getopt_long(argc, argv, "c:vhV", known, nullptr)) != -1;) {
        switch (c) {
        case 'c': options.config = optarg; break;
        case kCheck: options.check = true; break;
        case kSpawner: options.spawner = true; break;
        case kReadyFile: options.ready_file = optarg; break;
        case 'v': options.verbose = true; break;
        case 'h': printf(kHelp, defaults::kConfigPath); return 0;
        case 'V': puts(version_line("rgpud").c_str()); return 0;
        default: fprintf(stderr, "See rgpud --help.\n"); return 2;
        }
    }
    if (optind < argc) {
        fprintf(stderr, "rgpud: unexpected argument \"%s\"; see rgpud --help\n", argv[optind]);
        return 2;
    }
    return std::nullopt;
}

// What a demo may do and a cluster may not.
Result<void> check_exposure(const Config &config)
{
    if (is_loopback(config.rgpud.listen)) return {};
    if (config.auth.method == "none")
        return error(ErrorKind::invalid,
                     "%s: [auth] method = \"none\" needs [rgpud] listen on loopback, and it is %s: "
                     "use munge or key",
                     config.path.c_str(), config.rgpud.listen.c_str());
    Result<Account> account = account_named(config.rgpud.worker_user);
    if (!config.rgpud.worker_user.empty() && account && account->uid == 0)
        return error(ErrorKind::invalid,
                     "%s: [rgpud] worker_user must not be root where listen is not loopback: name "
                     "another account",
                     config.path.c_str());
    return {};
}

// In one write: whoever looks finds nothing in it or all.
Result<void> write_ready_file(const std::string &path, const Fd &file, int control_port,
                              int data_port)
{
    char text[128];
    const int n = snprintf(text, sizeof text,
                           "{\"pid\": %d, \"control_port\": %d, \"data_port\": %d}\n", getpid(),
                           control_port, data_port);
    if (write(file.get(), text, static_cast<size_t>(n)) != n)
        return error(ErrorKind::invalid, "--ready-file %s: %s", path.c_str(), strerror(errno));
    return {};
}

// An ordinary user's rgpud does without. The service's must not: its workers would be its own user,
// and so beside its files.
Result<std::shared_ptr<Spawner>> find_spawner(const RgpudConfig &config, const Options &options)
{
    const Time deadline = now() + kSpawnerStarts;
    const bool needed = !options.check &&
                        (own_account().name == config.user || !config.spawner.empty());
    for (;;) {
        std::shared_ptr<Spawner> spawner = Spawner::connect(config, geteuid());
        if (spawner || !needed) return spawner;
        if (now() > deadline)
            return error(
                ErrorKind::unavailable,
                "no rgpu-spawner answers at %s: start rgpu-spawner.service, or rgpud as root",
                spawner_path(config).c_str());
        usleep(100'000);
    }
}

// What only root can do is done here; from then on rgpud is not root. In `ready` is the file for
// the ports.
Result<std::shared_ptr<Spawner>> settle(const RgpudConfig &config, const Options &options,
                                        Fd &ready)
{
    if (!options.ready_file.empty()) {
        ready.reset(
            open(options.ready_file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
        if (!ready)
            return error(ErrorKind::invalid, "--ready-file %s: %s", options.ready_file.c_str(),
                         strerror(errno));
    }
    if (!config.worker_user.empty())
        if (Result<Account> account = account_named(config.worker_user); !account)
            return std::move(account).error().in("[rgpud] worker_user");
    if (geteuid() != 0) return find_spawner(config, options);
    const Account account = rgpud_account(config);
    if (Result<void> given = give_state(config, account); !given) return std::move(given).error();
    Result<std::shared_ptr<Spawner>> spawner(nullptr);
    if (!options.check) spawner = Spawner::start(config, account.uid);
    if (!spawner) return spawner;
    if (Result<void> left = leave_root(config, account); !left) return std::move(left).error();
    return spawner;
}

void describe(const std::shared_ptr<Spawner> &spawner)
{
    if (!spawner)
        return log_info("there is no spawner: all workers run as rgpud's own user, %s",
                        own_account().name.c_str());
    log_info("%s", spawner->limits_told().c_str());
    if (!spawner->isolates())
        log_warning(
            "workers see the host's processes and devices: there are no namespaces for them");
}

void describe(const Config &config, const Driver &driver)
{
    const auto &gpus = driver.inventory.gpus;
    log_info("driver %s, version %d.%d: %zu %sGPU%s", driver.path.c_str(),
             driver.inventory.driver_version / 1000, driver.inventory.driver_version % 1000 / 10,
             gpus.size(), driver.software ? "software " : "", gpus.size() == 1 ? "" : "s");
    for (const pool::GpuState &gpu : gpus)
        log_info("GPU %d: %s, %s, compute capability %s, %s", gpu.index, gpu.name.c_str(),
                 format_size(gpu.memory).c_str(), gpu.compute_capability.c_str(), gpu.uuid.c_str());
    if (config.auth.method == "none")
        log_warning("[auth] method is none: every local user may do everything");
    if (config.rgpud.encrypt != "false" && config.rgpud.transport == "ucx")
        log_warning("[rgpud] transport = \"ucx\" means nothing where encrypt = %s encrypts: "
                    "encrypted connections are TCP",
                    config.rgpud.encrypt.c_str());
}

sigset_t served_signals()
{
    sigset_t set;
    sigemptyset(&set);
    for (int signal : {SIGTERM, SIGINT, SIGCHLD}) sigaddset(&set, signal);
    return set;
}

// Tends to leases and workers until a signal ends rgpud; returns the signal.
int watch(Service &service)
{
    sigset_t signals = served_signals();
    Fd told(signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
    pollfd look[] = {{told.get(), POLLIN, 0}, {service.ended_fd(), POLLIN, 0}};
    for (;;) {
        Time next = service.tend(), time = now();
        Milliseconds pause = next <= time          ? Milliseconds(0)
                             : next - time < kLook ? Milliseconds(next - time)
                                                   : kLook;
        (void)poll(look, 2, static_cast<int>(pause.count()));
        signalfd_siginfo info;
        while (read(told.get(), &info, sizeof info) == sizeof info)
            if (info.ssi_signo == SIGTERM || info.ssi_signo == SIGINT)
                return static_cast<int>(info.ssi_signo);
    }
}

Result<void> serve(const Config &config, const Options &options, Driver driver,
                   pool::Verifier &verifier, std::shared_ptr<Spawner> spawner, const Fd &ready)
{
    Result<std::unique_ptr<Audit>> audit = Audit::open(config.rgpud);
    if (!audit) return std::move(audit).error();
    Result<std::unique_ptr<SqliteStore>> store =
        SqliteStore::open(config.rgpud.state_dir + "/leases.db");
    if (!store) return std::move(store).error();
    // Behind the store, which only one rgpud can have open.
    if (Result<void> remembers = verifier.remember_in(config.rgpud.state_dir + "/used-credentials");
        !remembers)
        return remembers;
    std::vector<std::string> uuids;
    for (const pool::GpuState &gpu : driver.inventory.gpus) uuids.push_back(gpu.uuid);
    Result<Boards> boards = Boards::open(config.rgpud.state_dir, config.rgpud.worker, uuids);
    if (!boards) return std::move(boards).error();
    Topology topology =
        look_at_topology(driver, config.rgpud.network_interface, nvlinks(config.rgpud, driver));
    Service service(config.rgpud, std::move(driver), std::move(*boards), **store,
                    std::move(topology), std::move(spawner), **audit);
    Result<void> loaded = service.load();
    if (!loaded) return loaded;
    HealthWatch health(config.rgpud, service);
    health.start();
    EnergyWatch energy(config.rgpud, service.driver(), service.energy());
    if (config.rgpud.energy) energy.start();
    Metrics metrics(config.rgpud.metrics_names);
    DataPort data(config.rgpud, service, metrics, **audit);
    std::unique_ptr<TlsIdentity> identity;
    if (config.rgpud.tls != "off") {
        Result<std::unique_ptr<TlsIdentity>> opened = TlsIdentity::open(config.rgpud);
        if (!opened) return std::move(opened).error();
        identity = std::move(*opened);
    }
    Control control(config.rgpud, service, verifier, metrics, **audit, identity.get());
    Result<int> data_port = data.bind();
    if (!data_port) return std::move(data_port).error();
    Result<int> control_port = control.bind();
    if (!control_port) return std::move(control_port).error();
    service.set_data_port(*data_port);
    Result<void> started = data.start();
    if (!started) return started;
    started = control.start();
    if (!started) return started;
    log_info("%s serves on %s: control port %d, data port %d", config.rgpud.name.c_str(),
             config.rgpud.listen.c_str(), *control_port, *data_port);
    if (identity) log_info("control: the key is %s", identity->pin().c_str());
    if (ready)
        if (Result<void> written =
                write_ready_file(options.ready_file, ready, *control_port, *data_port);
            !written)
            return written;
    JobWatch jobs(config.rgpud, service);
    jobs.start();
    int signal = watch(service);
    jobs.stop();
    health.stop();
    energy.stop();
    Service::Count count = service.count();
    log_info("ends on signal %d; %zu leases are kept, %d workers run on and are adopted by the "
             "next rgpud",
             signal, count.leases, count.workers);
    control.stop();
    data.stop();
    return {};
}

Result<void> run(const Options &options)
{
    Result<Config> config = load_config(config_path(options.config));
    if (!config) return std::move(config).error();
    Result<void> safe = check_exposure(*config);
    if (!safe) return safe;
    if (options.spawner) {
        if (geteuid() != 0) return error(ErrorKind::invalid, "--spawner is for root");
        return become_spawner(config->rgpud, rgpud_account(config->rgpud).uid);
    }
    std::vector<std::string> unknown;
    Result<std::unique_ptr<pool::Verifier>> verifier = pool::make_verifier(config->auth, unknown);
    if (!verifier) return std::move(verifier).error();
    for (const std::string &user : unknown)
        log_debug("[auth] admins: there is no user \"%s\" on this host", user.c_str());
    Fd ready;
    Result<std::shared_ptr<Spawner>> spawner = settle(config->rgpud, options, ready);
    if (!spawner) return std::move(spawner).error();
    describe(*spawner);
    Result<Driver> driver = find_driver(config->rgpud);
    if (!driver) return std::move(driver).error();
    describe(*config, *driver);
    return options.check ? Result<void>()
                         : serve(*config, options, std::move(*driver), **verifier,
                                 std::move(*spawner), ready);
}

}  // namespace
}  // namespace rgpu::serverd

int main(int argc, char **argv)
{
    using namespace rgpu;
    serverd::Options options;
    if (std::optional<int> status = serverd::read_options(argc, argv, options)) return *status;
    open_log("rgpud", options.verbose ? LogLevel::debug : LogLevel::info);
    signal(SIGPIPE, SIG_IGN);
    // Before the first thread: all inherit it, and the main thread alone takes these signals.
    sigset_t signals = serverd::served_signals();
    pthread_sigmask(SIG_BLOCK, &signals, nullptr);
    Result<void> ended = serverd::run(options);
    if (!ended) log_error("%s", ended.error().text.c_str());
    return ended ? 0 : 1;
}
