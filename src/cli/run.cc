// rgpu run: a command on remote GPUs, outside Slurm.
#include <pwd.h>
#include <unistd.h>

#include <climits>
#include <cstring>

#include <CLI/CLI.hpp>

#include "cli/child.h"
#include "cli/command.h"
#include "cli/holder.h"
#include "cli/lease_file.h"
#include "pool/acquire.h"
#include "util/clock.h"

namespace rgpu::cli {
namespace {

constexpr const char *kFooter =
    "The command and its arguments follow the options: rgpu run -n 2 -- python3 train.py\n"
    "\n"
    "Exit status: the command's own (128+n when signal n ended it), or\n"
    "  121  the pool can never give this\n"
    "  122  the GPUs were still in use when --wait ran out\n"
    "  123  no server answered\n"
    "  125  rgpu itself failed before the command ran\n"
    "  126, 127  the command cannot be run, is not there";

std::string own_host()
{
    char name[HOST_NAME_MAX + 1] = {};
    gethostname(name, HOST_NAME_MAX);
    return name;
}

pool::Owner own_process()
{
    pool::Owner owner;
    owner.uid = getuid();
    if (passwd *account = getpwuid(owner.uid))
        owner.user = account->pw_name;
    owner.host = own_host();
    owner.pid = static_cast<uint32_t>(getpid());
    return owner;
}

// Says once what is waited for; on a terminal the line follows the time.
class WaitingLine {
public:
    explicit WaitingLine(Milliseconds limit) : limit_(limit) {}
    ~WaitingLine()
    {
        if (shown_ && terminal_)
            fputs("\r\033[K", stderr);
    }

    void show(const pool::Outcome &outcome, Milliseconds waited)
    {
        // What its last holder is just giving back is not worth a word.
        if (waited < defaults::kFirstPause / 2 || (shown_ && !terminal_))
            return;
        auto seconds = format_duration(std::chrono::duration_cast<std::chrono::seconds>(waited));
        fprintf(stderr, "%srgpu: waiting for GPUs (%s, at most %s): %s%s",
                terminal_ ? "\r\033[K" : "", seconds.c_str(), format_duration(limit_).c_str(),
                outcome.reason.c_str(), terminal_ ? "" : "\n");
        shown_ = true;
    }

private:
    Milliseconds limit_;
    bool terminal_ = isatty(STDERR_FILENO);
    bool shown_ = false;
};

// The lease while it is held: renewed, and released at the end whatever happens.
class HeldLease {
public:
    HeldLease(pool::Client &client, pool::Grant grant)
        : client_(client), grant_(std::move(grant)), holder_(grant_), renewed_(now())
    {
    }
    HeldLease(const HeldLease &) = delete;
    HeldLease &operator=(const HeldLease &) = delete;
    ~HeldLease()
    {
        Result<void> released = client_.release(grant_.server, grant_.lease.id);
        if (!released)
            fprintf(stderr, "rgpu: %s; the lease ends by itself within %s\n",
                    released.error().text.c_str(), format_duration(grant_.lease.term).c_str());
    }

    const pool::Grant &grant() const { return grant_; }

    // How often tend() wants to be called.
    static constexpr Milliseconds kTend{1000};

    // Renews it at each third of its term, and at once when its connection was lost.
    void tend()
    {
        Milliseconds period = grant_.lease.term / 3;
        bool lost = !holder_.is_there();
        if (lost || (period.count() && now() - renewed_ >= period))
            renew();
        if (lost)
            holder_.connect();
    }

private:
    void renew()
    {
        renewed_ = now();
        Result<void> renewed = client_.renew(grant_.server, grant_.lease.id);
        if (!renewed && !told_)
            fprintf(stderr, "rgpu: the lease is not renewed: %s\n", renewed.error().text.c_str());
        told_ = !renewed;
    }

    pool::Client &client_;
    pool::Grant grant_;
    Holder holder_;
    Time renewed_;
    bool told_ = false;
};

class Run : public Command {
public:
    void options(CLI::App &app) override
    {
        app.add_option("-n,--gpus", gpus_, "How many GPUs (1)")
            ->type_name("N")
            ->check(CLI::Range(1, defaults::kMaxGpusOfRequest));
        app.add_option("-p,--share", share_, "Part of each GPU: 0.5 or 50%, or a range, 30-100 (1)")
            ->type_name("SHARE");
        app.add_option("-m,--memory", memory_, "Memory of each GPU: 8G (the share's part of it)")
            ->type_name("SIZE");
        app.add_option("-w,--wait", wait_,
                       "How long to wait for GPUs in use: 30m; 0 gives up at once")
            ->type_name("TIME");
        app.add_flag("-v,--verbose", verbose_, "Say on stderr which GPUs were leased");
        app.prefix_command();
        app.footer(kFooter);
        app_ = &app;
    }

    int run(Context &context) override
    {
        std::vector<std::string> command = app_->remaining();
        if (!command.empty() && command[0].starts_with("-")) {
            fprintf(stderr, "rgpu: run has no option %s; see rgpu run --help\n",
                    command[0].c_str());
            return kUsage;
        }
        if (context.after_dashes) {
            if (!command.empty())
                command.push_back("--");  // it is the command's own
            command.insert(command.end(), context.after_dashes->begin(),
                           context.after_dashes->end());
        }
        if (command.empty()) {
            fprintf(stderr, "rgpu: run what? Give a command after --; see rgpu run --help\n");
            return kUsage;
        }
        Result<const Config *> config = context.config();
        if (!config)
            return fail(config.error(), kOwnFailure);
        pool::Wait wait;
        wait.limit = (*config)->client.wait;
        Result<pool::Request> request = wanted((*config)->client, wait);
        if (!request)
            return fail(request.error(), kUsage);
        Result<pool::Client> client = pool::Client::create(**config);
        if (!client)
            return fail(client.error(), kOwnFailure);
        hold_signals();
        return lease_and_run(*client, **config, *request, wait, command);
    }

private:
    Result<pool::Request> wanted(const ClientConfig &config, pool::Wait &wait)
    {
        pool::Request request;
        request.gpus = gpus_;
        request.term = config.term;
        request.owner = own_process();
        if (!share_.empty()) {
            Result<ShareRange> share = parse_share_range(share_);
            if (!share)
                return std::move(share).error().in("--share");
            request.share = share->least;
            request.most = share->most;
        }
        if (!memory_.empty()) {
            Result<uint64_t> memory = parse_size(memory_);
            if (!memory || *memory == 0)
                return (memory ? error(ErrorKind::invalid, "must not be 0")
                               : std::move(memory).error())
                    .in("--memory");
            request.memory = *memory;
        } else if (request.share == 0) {
            return error(ErrorKind::invalid, "--share %s: a share that begins at 0 has no memory of its own; add --memory",
                         share_.c_str());
        }
        if (!wait_.empty()) {
            Result<Milliseconds> limit = parse_duration(wait_);
            if (!limit)
                return std::move(limit).error().in("--wait");
            wait.limit = *limit;
        }
        return request;
    }

    int lease_and_run(pool::Client &client, const Config &config, const pool::Request &request,
                      pool::Wait &wait, const std::vector<std::string> &command)
    {
        std::optional<int> signal;
        wait.cancelled = [&] { return signal || (signal = ending_signal()); };
        Result<pool::Outcome> outcome = pool::Outcome{};
        {
            WaitingLine line(wait.limit);
            wait.waiting = [&](const pool::Outcome &now, Milliseconds waited) {
                line.show(now, waited);
            };
            outcome = pool::acquire_waiting(client, request, wait);
        }
        if (!outcome)
            return fail(outcome.error(), kOwnFailure);
        if (!outcome->grant)
            return signal ? 128 + *signal : without_lease(*outcome, wait);
        HeldLease held(client, std::move(*outcome->grant));
        if (signal)
            return 128 + *signal;
        if (verbose_)
            tell(held.grant());
        Result<LeaseFile> file = LeaseFile::write({held.grant()});
        if (!file)
            return fail(file.error(), kOwnFailure);
        set_environment(file->path(), config.client);
        return run_command(command, HeldLease::kTend, [&] { held.tend(); });
    }

    static int without_lease(const pool::Outcome &outcome, const pool::Wait &wait)
    {
        switch (outcome.kind) {
        case pool::Outcome::never:
            return fail(error(ErrorKind::exhausted, "the pool can never give this: %s",
                              outcome.reason.c_str()),
                        kNever);
        case pool::Outcome::unreachable:
            return fail(
                error(ErrorKind::disconnected, "no server answers: %s", outcome.reason.c_str()),
                kNoServer);
        default:
            return fail(error(ErrorKind::unavailable, "no GPUs within %s: %s",
                              format_duration(wait.limit).c_str(), outcome.reason.c_str()),
                        kNotInTime);
        }
    }

    static void tell(const pool::Grant &grant)
    {
        for (const pool::Portion &gpu : grant.lease.gpus)
            fprintf(stderr, "rgpu: %s GPU %d (%s), %s, %s\n", grant.server.c_str(), gpu.index,
                    gpu.name.c_str(), share_text(gpu.share, gpu.most).c_str(), format_size(gpu.memory).c_str());
    }

    CLI::App *app_ = nullptr;
    int gpus_ = 1;
    std::string share_, memory_, wait_;
    bool verbose_ = false;
};

const Registered<Run> run{"", "run", "Run a command on remote GPUs"};

}  // namespace
}  // namespace rgpu::cli
