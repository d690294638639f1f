// SPDX-License-Identifier: Apache-2.0
// rgpu simulate: what a made-up pool does with a trace of requests.
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cli/parts/command.h"
#include "cli/parts/table.h"
#include "pool/ledger/simulate.h"

namespace rgpu::cli {
namespace {

using pool::Policy;

constexpr const char *kFooter =
    "A trace is text: lines \"servers COUNT GPUS MEMORY\" and \"request ARRIVAL GPUS SHARE MEMORY "
    "DURATION\" (seconds).\n"
    "contrib/pool-trace makes one. Columns are explained in rgpu(1), doc/placement.md has results.";

std::string seconds(double time)
{
    char text[32];
    snprintf(text, sizeof text, time < 600 ? "%.1f s" : "%.0f s", time);
    return text;
}

std::string percent(double part)
{
    char text[32];
    snprintf(text, sizeof text, "%.1f%%", part * 100);
    return text;
}

class Simulate : public Command {
public:
    void options(CLI::App &app) override
    {
        app.add_option("TRACE", trace_, "The trace's file; - is standard input")->required();
        app.add_option(
               "--policy", policies_,
               "best-fit (what the pool does), worst-fit or first-fit; may be repeated (all three)")
            ->type_name("POLICY");
        app.add_flag("--span", spans_,
                     "Each request may have GPUs of several servers, where no one server has all");
        app.add_flag("--json", json_, "Print JSON");
        app.footer(kFooter);
    }

    int run(Context &) override
    {
        std::vector<Policy> policies;
        for (const std::string &wanted : policies_) {
            auto policy = pool::policy_named(wanted);
            if (!policy)
                return fail(error(ErrorKind::invalid,
                                  "--policy %s: best-fit, worst-fit and first-fit are known",
                                  wanted.c_str()),
                            kUsage);
            policies.push_back(*policy);
        }
        if (policies.empty()) policies = {Policy::best_fit, Policy::worst_fit, Policy::first_fit};
        std::ifstream file(trace_);
        std::error_code unknown;
        if (std::filesystem::is_directory(trace_, unknown))
            return fail(
                error(ErrorKind::invalid,
                      "%s is a directory: name a file with a trace, or - for standard input",
                      trace_.c_str()));
        if (trace_ != "-" && !file)
            return fail(error(ErrorKind::invalid, "%s: %s", trace_.c_str(), strerror(errno)));
        std::istream &in = trace_ == "-" ? std::cin : file;
        std::string text((std::istreambuf_iterator<char>(in)), {});
        Result<pool::Trace> trace = pool::parse_trace(text);
        if (!trace) return fail(std::move(trace).error().in(trace_));
        std::vector<pool::Simulated> results;
        for (Policy policy : policies) results.push_back(pool::simulate(*trace, policy, spans_));
        fputs(json_ ? as_json(results).c_str() : as_table(results).c_str(), stdout);
        return fflush(stdout) == 0 ? kOk
                                   : fail(error(ErrorKind::internal, "cannot write to stdout"));
    }

private:
    std::string as_table(const std::vector<pool::Simulated> &results) const
    {
        std::vector<std::vector<std::string>> rows = {{"POLICY", "UTILISATION", "WAITED", "MEAN",
                                                       "P95", "LONGEST", "LARGEST", "BROKEN",
                                                       "SCATTERED"}};
        if (spans_) rows[0].push_back("SPANNED");
        for (const pool::Simulated &r : results) {
            rows.push_back({pool::name(r.policy), percent(r.utilisation),
                            percent(r.requests ? static_cast<double>(r.waited) /
                                                     static_cast<double>(r.requests)
                                               : 0),
                            seconds(r.wait_mean), seconds(r.wait_p95), seconds(r.wait_max),
                            seconds(r.wait_large), percent(r.broken), percent(r.scattered)});
            if (spans_)
                rows.back().push_back(percent(r.requests ? static_cast<double>(r.spanned) /
                                                               static_cast<double>(r.requests)
                                                         : 0));
        }
        const pool::Simulated &first = results[0];
        char head[160];
        snprintf(head, sizeof head,
                 "%d servers, %d GPUs, %zu requests in %s; %zu can never be served\n",
                 first.servers, first.gpus, first.requests + first.never,
                 seconds(first.span).c_str(), first.never);
        return head + table(rows);
    }

    static std::string as_json(const std::vector<pool::Simulated> &results)
    {
        nlohmann::json all = nlohmann::json::array();
        for (const pool::Simulated &r : results)
            all.push_back({{"policy", pool::name(r.policy)},
                           {"servers", r.servers},
                           {"gpus", r.gpus},
                           {"requests", r.requests},
                           {"never", r.never},
                           {"waited", r.waited},
                           {"spanned", r.spanned},
                           {"span_s", r.span},
                           {"utilisation", r.utilisation},
                           {"wait_mean_s", r.wait_mean},
                           {"wait_p50_s", r.wait_p50},
                           {"wait_p95_s", r.wait_p95},
                           {"wait_max_s", r.wait_max},
                           {"wait_largest_s", r.wait_large},
                           {"broken", r.broken},
                           {"scattered", r.scattered}});
        return nlohmann::json{{"policies", std::move(all)}}.dump(2) + "\n";
    }

    std::string trace_;
    std::vector<std::string> policies_;
    bool spans_ = false, json_ = false;
};

const Registered<Simulate> command{
    "", "simulate", "Replay a trace of requests on a made-up pool, with each placement policy"};

}  // namespace
}  // namespace rgpu::cli
