// SPDX-License-Identifier: Apache-2.0
#include "cli/parts/gpu_options.h"

#include <pwd.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <climits>
#include <cmath>

#include <CLI/CLI.hpp>

#include "cli/parts/child.h"
#include "slurm/terms/filters.h"

namespace rgpu::cli {
namespace {

std::string own_host()
{
    char name[HOST_NAME_MAX + 1] = {};
    gethostname(name, HOST_NAME_MAX);
    return name;
}

// Says once what is waited for; on a terminal the line follows the time.
class WaitingLine {
public:
    explicit WaitingLine(Milliseconds limit) : limit_(limit) {}
    ~WaitingLine()
    {
        if (shown_ && terminal_) fputs("\r\033[K", stderr);
    }

    void show(const pool::Outcome &outcome, Milliseconds waited)
    {
        // What its last holder is just giving back is not worth a word.
        if (waited < defaults::kFirstPause / 2 || (shown_ && !terminal_)) return;
        auto seconds = format_duration(std::chrono::duration_cast<std::chrono::seconds>(waited));
        std::string line = "rgpu: waiting for GPUs (" + seconds + ", at most " +
                           format_duration(limit_) + ")" + (terminal_ ? bar(waited) : "") + ": " +
                           outcome.reason;
        fprintf(stderr, "%s%s%s", terminal_ ? "\r\033[K" : "", fitting(line).c_str(),
                terminal_ ? "" : "\n");
        shown_ = true;
    }

private:
    // How much of the time is over.
    std::string bar(Milliseconds waited) const
    {
        constexpr size_t kWidth = 20;
        double part = limit_.count() ? static_cast<double>(waited.count()) /
                                           static_cast<double>(limit_.count())
                                     : 1;
        auto full = static_cast<size_t>(std::min(1.0, part) * kWidth);
        return " [" + std::string(full, '#') + std::string(kWidth - full, '.') + "]";
    }

    // On a terminal as much as has room: of a line that wraps only the last row would be cleared.
    std::string fitting(std::string line) const
    {
        winsize size{};
        if (terminal_ && ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 4 &&
            line.size() >= size.ws_col)
            line.replace(size.ws_col - 4u, line.npos, "...");
        return line;
    }

    Milliseconds limit_;
    bool terminal_ = isatty(STDERR_FILENO);
    bool shown_ = false;
};

}  // namespace

pool::Owner own_process()
{
    pool::Owner owner;
    owner.uid = getuid();
    if (passwd *account = getpwuid(owner.uid)) owner.user = account->pw_name;
    owner.host = own_host();
    owner.pid = static_cast<uint32_t>(getpid());
    return owner;
}

void GpuOptions::add(CLI::App &app)
{
    app.add_option("-n,--gpus", gpus_, "How many GPUs (1)")
        ->type_name("N")
        ->check(CLI::Range(1, defaults::kMaxGpusOfRequest));
    app.add_option("-p,--share", share_, "Part of each GPU: 0.5 or 50%, or a range, 30-100 (1)")
        ->type_name("SHARE");
    app.add_option("-m,--memory", memory_, "Memory of each GPU: 8G (the share's part of it)")
        ->type_name("SIZE");
    app.add_option("-w,--wait", wait_, "How long to wait for GPUs in use: 30m; 0 gives up at once")
        ->type_name("TIME");
    app.add_flag("--span", span_,
                 "Allow GPUs of several servers where no single server has enough");
    app.add_option("--server", servers_, "Only of this server, by name or address; may be repeated")
        ->type_name("NAME");
    app.add_option("--gpu-name", names_,
                   "Only GPUs with this in their name, like H100; may be repeated")
        ->type_name("TEXT");
    app.add_option("--uuid", uuids_, "Only this GPU; may be repeated")->type_name("UUID");
    app.add_option("--min-memory", least_memory_, "Only GPUs that have so much memory in all")
        ->type_name("SIZE");
    app.add_option("--min-cc", compute_capability_,
                   "Only GPUs of at least this compute capability, like 8.0")
        ->type_name("X.Y");
    app.add_option("--min-cuda", cuda_,
                   "Only servers whose driver has at least this CUDA version, like 12.4")
        ->type_name("X.Y");
    app.add_option("--min-driver", driver_,
                   "Only servers whose driver is of at least this release, like 570.86.10")
        ->type_name("RELEASE");
    // A variable of somebody's script that is not set is no wish for any GPU.
    for (CLI::Option *option : app.get_options())
        option->check(CLI::Validator(
            [](std::string &value) {
                return value.empty() ? "it is empty; leave the option out instead" : "";
            },
            ""));
}

Result<void> GpuOptions::choose(pool::Client &client) const
{
    if (span_) client.span();
    return client.only(servers_);
}

Result<pool::GpuFilter> GpuOptions::filters() const
{
    pool::GpuFilter filter;
    filter.names = names_;
    filter.uuids = uuids_;
    if (!least_memory_.empty()) {
        Result<uint64_t> size = parse_size(least_memory_);
        if (!size) return std::move(size).error().in("--min-memory");
        filter.memory = *size;
    }
    if (!compute_capability_.empty()) {
        Result<int> number = slurm::parse_compute_capability(compute_capability_);
        if (!number) return std::move(number).error().in("--min-cc");
        filter.compute_capability = *number;
    }
    if (!cuda_.empty()) {
        Result<int> number = slurm::parse_cuda_version(cuda_);
        if (!number) return std::move(number).error().in("--min-cuda");
        filter.cuda = *number;
    }
    if (!driver_.empty()) {
        Result<std::string> release = slurm::parse_driver_release(driver_);
        if (!release) return std::move(release).error().in("--min-driver");
        filter.driver = *release;
    }
    return filter;
}

Result<pool::Request> GpuOptions::request(const ClientConfig &config, pool::Wait &wait) const
{
    pool::Request request;
    request.gpus = gpus_;
    request.term = config.term;
    request.owner = own_process();
    wait.limit = config.wait;
    Result<pool::GpuFilter> filter = filters();
    if (!filter) return std::move(filter).error();
    request.filter = std::move(*filter);
    if (!share_.empty()) {
        Result<ShareRange> share = parse_share_range(share_);
        if (!share) return std::move(share).error().in("--share");
        request.share = share->least;
        request.most = share->most;
    }
    if (!memory_.empty()) {
        Result<uint64_t> memory = parse_size(memory_);
        if (!memory || *memory == 0)
            return (memory ? error(ErrorKind::invalid, "must not be 0") : std::move(memory).error())
                .in("--memory");
        request.memory = *memory;
    } else if (request.share == 0) {
        return error(ErrorKind::invalid,
                     "--share %s: a share that begins at 0 has no memory of its own; add --memory",
                     share_.c_str());
    }
    if (!wait_.empty()) {
        Result<Milliseconds> limit = parse_duration(wait_);
        if (!limit) return std::move(limit).error().in("--wait");
        wait.limit = *limit;
    }
    return request;
}

Acquired acquire_showing(pool::Client &client, const pool::Request &request, pool::Wait wait)
{
    std::optional<int> signal;
    WaitingLine line(wait.limit);
    wait.cancelled = [&] { return signal || (signal = ending_signal()); };
    wait.waiting = [&](const pool::Outcome &now, Milliseconds waited) { line.show(now, waited); };
    Result<pool::Outcome> outcome = pool::acquire_waiting(client, request, wait);
    return {std::move(outcome), signal};
}

int GpuOptions::told_without_lease(const pool::Outcome &outcome, Milliseconds limit,
                                   pool::Client &client, const pool::Request &request) const
{
    switch (outcome.kind) {
    case pool::Outcome::never:
        return fail(error(ErrorKind::exhausted, "the pool can never give this: %s%s",
                          outcome.reason.c_str(),
                          gpus_ > 1 && !span_ && client.span_would_do(request)
                              ? "; with --span the GPUs of several servers would do"
                              : ""),
                    kNever);
    case pool::Outcome::unreachable:
        return fail(error(ErrorKind::disconnected, "no server answers: %s", outcome.reason.c_str()),
                    kNoServer);
    default:
        return fail(error(ErrorKind::unavailable, "no GPUs within %s: %s",
                          format_duration(limit).c_str(), outcome.reason.c_str()),
                    kNotInTime);
    }
}

}  // namespace rgpu::cli
