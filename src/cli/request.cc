// SPDX-License-Identifier: Apache-2.0
// rgpu request: holds GPUs across several commands, in a lease file.
#include <unistd.h>

#include <climits>
#include <cstdlib>
#include <utility>

#include <CLI/CLI.hpp>

#include "cli/parts/child.h"
#include "cli/parts/gpu_options.h"
#include "cli/parts/lease_file.h"
#include "cli/parts/my_gpus.h"

namespace rgpu::cli {
namespace {

constexpr const char *kFooter =
    "The GPUs are held until rgpu release --file FILE, or until --term has passed.\n"
    "  rgpu request -n 2 -o gpus && rgpu run --lease gpus -- python3 train.py; rgpu release --file "
    "gpus\n"
    "\n"
    "Exit status: 0, 1 (an error), 2 (wrong usage), or as rgpu run: 121 never, 122 not in time, "
    "123 no server.";

class Request : public Command {
public:
    void options(CLI::App &app) override
    {
        wanted_.add(app);
        app.add_option("-o,--file", file_, "Where to write the lease file (rgpu.lease)")
            ->type_name("FILE");
        app.add_option("-t,--term", term_,
                       "End by itself after this time: 8h (held until it is released)")
            ->type_name("TIME");
        app.add_flag("--json", json_,
                     "Print JSON: the file, and its GPUs as rgpu list --mine does");
        app.footer(kFooter);
    }

    int run(Context &context) override
    {
        Result<const Config *> config = context.config();
        if (!config) return fail(config.error());
        pool::Wait wait;
        Result<pool::Request> request = wanted_.request((*config)->client, wait);
        if (!request) return fail(request.error(), kUsage);
        request->term = Milliseconds(0);
        if (!term_.empty()) {
            Result<Milliseconds> term = parse_duration(term_);
            if (!term) return fail(std::move(term).error().in("--term"), kUsage);
            request->term = *term;
        }
        // Before anything is leased: what is there may be the only word of another lease.
        if (access(file_.c_str(), F_OK) == 0)
            return fail(
                error(ErrorKind::invalid,
                      "%s is there already: release it (rgpu release --file), or name another",
                      file_.c_str()));
        Result<pool::Client> client = context.pool();
        if (!client) return fail(client.error());
        if (Result<void> chosen = wanted_.choose(*client); !chosen)
            return fail(chosen.error(), kUsage);
        hold_signals();
        auto [outcome, signal] = acquire_showing(*client, *request, wait);
        if (!outcome) return fail(outcome.error());
        if (outcome->grants.empty())
            return signal ? 128 + *signal
                          : wanted_.told_without_lease(*outcome, wait.limit, *client, *request);
        Result<void> written = signal ? error(ErrorKind::unavailable, "a signal came")
                                      : write_lease_file(file_, outcome->grants);
        if (!written) {
            (void)client->release(outcome->grants).has_value();
            return signal ? 128 + *signal : fail(written.error());
        }
        show(outcome->grants);
        return kOk;
    }

private:
    void show(const std::vector<pool::Grant> &grants) const
    {
        if (json_) {
            fputs(my_json(grants, file_).c_str(), stdout);
            return;
        }
        const char *between = "";
        printf("%s: ", file_.c_str());
        for (const pool::Grant &grant : grants)
            printf("%s%zu %s of %s", std::exchange(between, ", "), grant.lease.gpus.size(),
                   grant.lease.gpus.size() == 1 ? "GPU" : "GPUs", grant.server.c_str());
        printf("\n");
    }

    GpuOptions wanted_;
    std::string file_ = "rgpu.lease", term_;
    bool json_ = false;
};

const Registered<Request> request{"", "request",
                                  "Hold GPUs across several commands, in a lease file"};

}  // namespace
}  // namespace rgpu::cli
