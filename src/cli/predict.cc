// SPDX-License-Identifier: Apache-2.0
// rgpu predict: what a recorded program would take over each server's link.
#include <CLI/CLI.hpp>

#include "cli/parts/command.h"
#include "cli/parts/predict_options.h"

namespace rgpu::cli {
namespace {

class PredictCommand : public Command {
public:
    void options(CLI::App &app) override
    {
        app.add_option("FILE", files_,
                       "What RGPU_STATS=FILE has recorded of a program; several: its processes")
            ->required();
        add_links(app, links_);
        add_servers(app, servers_);
        app.add_flag("--json", json_, "Print JSON");
        app.footer("Record a program with RGPU_STATS=/tmp/%p.json rgpu run -- ..., on the nearest "
                   "server. rgpu run --predict does both at once.\n"
                   "Each server's link is measured now: connecting, and some MiB from it.\n"
                   "\n"
                   "Exit status: 0 predicted; 1 a file is no such record; 123 no server answered, "
                   "and no --link was given.");
    }

    int run(Context &context) override
    {
        auto links = parse_links(links_);
        if (!links) return fail(links.error(), kUsage);
        std::vector<RecordedProcess> processes;
        for (const std::string &file : files_) {
            auto recorded = read_recorded(file);
            if (!recorded) return fail(recorded.error());
            processes.push_back(std::move(*recorded));
        }
        std::vector<std::string> unknown;
        std::vector<NamedLink> all;
        if (links->empty() || !servers_.empty()) {
            auto measured = measure_paths(context, servers_, unknown);
            if (!measured) return fail(measured.error());
            all = std::move(*measured);
        }
        all.insert(all.end(), links->begin(), links->end());
        if (all.empty()) {
            for (const std::string &why : unknown)
                (void)fail(error(ErrorKind::unavailable, "%s", why.c_str()));
            return kNoServer;
        }
        Prediction prediction = predict(std::move(processes), 0, all);
        prediction.unknown = std::move(unknown);
        return print(json_ ? prediction_json(prediction) : prediction_text(prediction));
    }

private:
    std::vector<std::string> files_, links_, servers_;
    bool json_ = false;
};

const Registered<PredictCommand> predict_command{
    "", "predict", "Tell what a recorded program would take over each server's link"};

}  // namespace
}  // namespace rgpu::cli
