// SPDX-License-Identifier: Apache-2.0
// rgpu web: a page for browsers that shows the pool, live.
#include <signal.h>

#include <cstdio>

#include <CLI/CLI.hpp>

#include "cli/parts/command.h"
#include "cli/slurm/tool.h"
#include "web/site.h"

namespace rgpu::cli {
namespace {

class Web : public Command {
public:
    void options(CLI::App &app) override
    {
        app.add_option("--listen", listen_,
                       "Serve it here instead of at [web] listen; port 0 is any free one")
            ->type_name("ADDRESS");
        app.add_option("-i,--interval", interval_, "Time between two looks at the pool (2s)")
            ->type_name("TIME");
        app.footer("It prints the page's address and runs until it is interrupted. The page shows "
                   "what you may see of the pool. From another machine: ssh -L "
                   "7712:localhost:7712 HOST. doc/admin.md says how a site serves it to all.\n"
                   "\n"
                   "Exit status: 0 it was ended by SIGINT or SIGTERM; 1 it could not serve; 2 a "
                   "wrong command line.");
    }

    int run(Context &context) override
    {
        web::Site::Pace pace;
        if (!interval_.empty()) {
            Result<Milliseconds> time = parse_duration(interval_);
            if (!time || *time < Milliseconds(100) || *time > std::chrono::hours(1))
                return fail(time ? error(ErrorKind::invalid, "--interval: from 100ms to 1h")
                                 : std::move(time).error().in("--interval"),
                            kUsage);
            pace.watched = *time;
        }
        Result<const Config *> config = context.config();
        if (!config) return fail(config.error());
        Result<web::Access> access = web::Access::create(**config);
        if (!access) return fail(access.error());
        Result<pool::Client> client = context.pool();
        if (!client) return fail(client.error());
        return serve(**config, std::move(*access), std::move(*client), pace);
    }

private:
    int serve(const Config &config, web::Access access, pool::Client client, web::Site::Pace pace)
    {
        // Before there are other threads: the signals are this one's.
        sigset_t ends;
        sigemptyset(&ends);
        for (int signal : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&ends, signal);
        pthread_sigmask(SIG_BLOCK, &ends, nullptr);
        const std::string address = listen_.empty() ? config.web.listen : listen_;
        const std::string token = access.made_token() ? "/#token=" + access.token() : "/";
        web::Site site(config, std::move(access), std::move(client), run_tool, pace);
        Result<int> port = site.start(address);
        if (!port) return fail(port.error());
        if (!site.has_charts())
            fprintf(stderr,
                    "rgpu: no charts: %s is missing; apt-get install libjs-chart.js, or set [web] "
                    "chart_library\n",
                    config.web.chart_library.c_str());
        const std::string place = address.substr(0, address.rfind(':')) + ":" +
                                  std::to_string(*port);
        if (print("http://" + place + token + "\n") != kOk) return kFailed;
        int signal = 0;
        while (sigwait(&ends, &signal) != 0) {}
        site.stop();
        return kOk;
    }

    std::string listen_, interval_;
};

const Registered<Web> web{"", "web", "Serve a page for browsers that shows the pool, live"};

}  // namespace
}  // namespace rgpu::cli
