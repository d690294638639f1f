// SPDX-License-Identifier: Apache-2.0
// rgpu run: a command on remote GPUs, outside Slurm.
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <deque>

#include <CLI/CLI.hpp>

#include "cli/parts/child.h"
#include "cli/parts/command.h"
#include "cli/parts/device_view.h"
#include "cli/parts/gpu_options.h"
#include "cli/parts/holder.h"
#include "cli/parts/lease_file.h"
#include "cli/parts/predict_options.h"
#include "cli/parts/report.h"
#include "pool/client/acquire.h"
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

// The lease while it is held: renewed, and released at the end whatever happens.
class HeldLease {
public:
    HeldLease(pool::Client &client, pool::Grant grant)
        : client_(client), grant_(std::move(grant)), holder_(grant_), renewed_(now())
    {}
    HeldLease(const HeldLease &) = delete;
    HeldLease &operator=(const HeldLease &) = delete;
    ~HeldLease()
    {
        Result<void> released = client_.release(grant_.server, grant_.lease.id);
        if (!released)
            fprintf(stderr, "rgpu: %s; the lease ends by itself within %s\n",
                    released.error().text.c_str(), format_duration(grant_.lease.term).c_str());
    }

    // How often tend() wants to be called.
    static constexpr Milliseconds kTend{1000};

    // Renews it at each third of its term, and at once when its connection was lost.
    void tend()
    {
        Milliseconds period = grant_.lease.term / 3;
        bool lost = !holder_.is_there();
        if (lost || (period.count() && now() - renewed_ >= period)) renew();
        if (lost) holder_.connect();
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
        const size_t general = app.get_options().size();
        wanted_.add(app);
        auto all = app.get_options();
        choosing_.assign(all.begin() + static_cast<ptrdiff_t>(general), all.end());
        app.add_option("-l,--lease", lease_,
                       "Use the GPUs that rgpu request holds with this file, and leave them held")
            ->type_name("FILE");
        app.add_flag("--no-devices", no_devices_,
                     "Show no device files of the GPUs (/dev/nvidia0): for programs that become "
                     "another user or make containers (sudo, podman)");
        app.add_flag("--report", report_,
                     "Say on stderr at the end how well the GPUs were used (rgpu report)");
        CLI::Option *predict =
            app.add_flag("--predict", predict_,
                         "Say on stderr at the end what the command would take over each server's "
                         "link, and with a GPU of this machine (rgpu predict)");
        add_links(app, links_)->needs(predict);
        app.add_flag("--json", json_, "With --predict: print JSON there")->needs(predict);
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
            if (!command.empty()) command.push_back("--");  // it is the command's own
            command.insert(command.end(), context.after_dashes->begin(),
                           context.after_dashes->end());
        }
        if (command.empty()) {
            fprintf(stderr, "rgpu: run what? Give a command after --; see rgpu run --help\n");
            return kUsage;
        }
        for (const CLI::Option *option : choosing_)
            if (!lease_.empty() && option->count())
                return fail(error(ErrorKind::invalid,
                                  "%s chooses GPUs, and --lease %s has those of rgpu request: "
                                  "leave out one of them",
                                  option->get_name().c_str(), lease_.c_str()),
                            kUsage);
        auto links = parse_links(links_);
        if (!links) return fail(links.error(), kUsage);
        Result<const Config *> config = context.config();
        if (!config) return fail(config.error(), kOwnFailure);
        if (!predict_) return run_by(context, **config, command);
        const auto recording = Recording::begin();
        if (!recording) return fail(recording.error(), kUsage);
        const int status = run_by(context, **config, command);
        if (took_) tell_prediction(context, *recording, std::move(*links));
        return status;
    }

private:
    int run_by(Context &context, const Config &config, const std::vector<std::string> &command)
    {
        if (!lease_.empty()) return run_with(lease_, context, config, command);
        pool::Wait wait;
        Result<pool::Request> request = wanted_.request(config.client, wait);
        if (!request) return fail(request.error(), kUsage);
        Result<pool::Client> client = context.pool();
        if (!client) return fail(client.error(), kOwnFailure);
        if (Result<void> chosen = wanted_.choose(*client); !chosen)
            return fail(chosen.error(), kUsage);
        hold_signals();
        return lease_and_run(*client, config, *request, wait, command);
    }

    // The lease file is somebody else's to end.
    int run_with(const std::string &file, Context &context, const Config &config,
                 const std::vector<std::string> &command)
    {
        char *path = realpath(file.c_str(), nullptr);
        if (!path)
            return fail(error(ErrorKind::invalid, "%s: %s; rgpu request makes it", file.c_str(),
                              strerror(errno)),
                        kOwnFailure);
        const std::string lease = path;
        free(path);
        set_environment(lease, config.client);
        hold_signals();
        const int status = run_and_time(
            command, [] {}, lease);
        if (!report_) return status;
        auto grants = read_lease_file(lease);
        Result<pool::Client> client = context.pool();
        if (grants && client)
            tell_report(*client, *grants);
        else
            (void)fail(grants ? client.error() : grants.error());
        return status;
    }

    // The command's status stays, whatever becomes of this.
    static void tell_report(pool::Client &client, const std::vector<pool::Grant> &grants)
    {
        std::vector<ReportedLease> leases;
        std::vector<std::string> silent;
        const auto is_ours = [&](const std::string &id) {
            return std::any_of(grants.begin(), grants.end(),
                               [&](const pool::Grant &grant) { return grant.lease.id == id; });
        };
        for (auto &told : client.usages("")) {
            for (size_t i = 0; told.answer && i < told.answer->leases.size(); ++i)
                if (pool::LeaseUsage &usage = told.answer->leases[i]; is_ours(usage.lease))
                    leases.push_back({told.server, std::move(usage)});
            if (!told.answer && std::any_of(grants.begin(), grants.end(), [&](const auto &grant) {
                    return grant.server == told.server;
                }))
                silent.push_back(told.server);
        }
        if (leases.empty()) {
            fprintf(stderr, "rgpu: no report: no server tells what its leases used\n");
            return;
        }
        Report report = report_of(leases);
        report.silent = std::move(silent);
        fputs(report_text(report).c_str(), stderr);
    }

    int lease_and_run(pool::Client &client, const Config &config, const pool::Request &request,
                      const pool::Wait &wait, const std::vector<std::string> &command)
    {
        auto [outcome, signal] = acquire_showing(client, request, wait);
        if (!outcome) return fail(outcome.error(), kOwnFailure);
        if (outcome->grants.empty())
            return signal ? 128 + *signal
                          : wanted_.told_without_lease(*outcome, wait.limit, client, request);
        std::deque<HeldLease> held;  // in which nothing is moved
        for (const pool::Grant &grant : outcome->grants) held.emplace_back(client, grant);
        if (signal) return 128 + *signal;
        for (const pool::Grant &grant : outcome->grants)
            if (verbose_) tell(grant);
        Result<LeaseFile> file = LeaseFile::write(outcome->grants);
        if (!file) return fail(file.error(), kOwnFailure);
        set_environment(file->path(), config.client);
        const auto tend = [&] {
            for (HeldLease &lease : held) lease.tend();
        };
        const int status = run_and_time(command, tend, file->path());
        if (report_) tell_report(client, outcome->grants);
        return status;
    }

    int run_and_time(const std::vector<std::string> &command, const std::function<void()> &tend,
                     const std::string &lease_file)
    {
        using Clock = std::chrono::steady_clock;
        const auto begin = Clock::now();
        const int status = run_command(command, HeldLease::kTend, tend, devices(lease_file));
        took_ = std::chrono::duration<double>(Clock::now() - begin).count();
        return status;
    }

    // The command's status stays, whatever becomes of this.
    void tell_prediction(Context &context, const Recording &recording, std::vector<NamedLink> more)
    {
        auto processes = recording.processes();
        if (processes.empty()) {
            fprintf(stderr,
                    "rgpu: no prediction: the command made no CUDA call that needs a GPU, or was "
                    "ended before it could tell of it\n");
            return;
        }
        std::vector<std::string> unknown;
        auto links = measure_paths(context, {}, unknown);
        if (!links) {  // --lease needs no server in rgpu.conf
            unknown.push_back(links.error().text);
            links = std::vector<NamedLink>();
        }
        links->insert(links->end(), more.begin(), more.end());
        Prediction prediction = predict(std::move(processes), *took_, *links);
        prediction.unknown = std::move(unknown);
        fputs((json_ ? prediction_json(prediction) : prediction_text(prediction)).c_str(), stderr);
    }

    Preparation devices(const std::string &lease_file) const
    {
        return no_devices_ ? Preparation{} : device_view(lease_file);
    }

    static void tell(const pool::Grant &grant)
    {
        for (const pool::Portion &gpu : grant.lease.gpus)
            fprintf(stderr, "rgpu: %s GPU %d (%s), %s, %s\n", grant.server.c_str(), gpu.index,
                    gpu.name.c_str(), share_text(gpu.share, gpu.most).c_str(),
                    format_size(gpu.memory).c_str());
    }

    CLI::App *app_ = nullptr;
    GpuOptions wanted_;
    std::string lease_;
    std::vector<const CLI::Option *> choosing_;  // those that say which GPUs
    std::vector<std::string> links_;
    bool verbose_ = false, no_devices_ = false, report_ = false, predict_ = false, json_ = false;
    std::optional<double> took_;  // seconds, once the command has run
};

const Registered<Run> run{"", "run", "Run a command on remote GPUs"};

}  // namespace
}  // namespace rgpu::cli
