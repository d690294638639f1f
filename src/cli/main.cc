// SPDX-License-Identifier: Apache-2.0
// rgpu: the command. Each subcommand is a file of its own (command.h).
#include <signal.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <map>
#include <regex>

#include <CLI/CLI.hpp>

#include "cli/parts/command.h"
#include "cli/parts/my_gpus.h"
#include "util/version.h"

namespace rgpu::cli {
namespace {

constexpr const char *kSlurmHelp =
    "What Slurm's prolog and epilog scripts call, and its administrator";

// The subcommands in the order of their names, each with the App that parses it.
struct Parsers {
    std::vector<std::pair<CLI::App *, std::unique_ptr<Command>>> leaves;

    void add_all(CLI::App &app)
    {
        std::vector<CommandEntry> entries = commands();
        std::sort(entries.begin(), entries.end(), [](const CommandEntry &a, const CommandEntry &b) {
            return strcmp(a.name, b.name) < 0;
        });
        std::map<std::string, CLI::App *> groups = {{"", &app}};
        for (const CommandEntry &entry : entries) {
            CLI::App *&parent = groups[entry.group];
            if (!parent) {
                parent = app.add_subcommand(entry.group, kSlurmHelp);
                parent->require_subcommand(1);
            }
            std::unique_ptr<Command> command = entry.make();
            CLI::App *leaf = parent->add_subcommand(entry.name, entry.help);
            command->options(*leaf);
            leaves.emplace_back(leaf, std::move(command));
        }
    }
};

// CLI11 gives what follows "--" in a subcommand to the parent: for `rgpu run` it is cut off before.
int cut_at_dashes(int argc, char **argv, Context &context)
{
    auto end = argv + argc;
    auto dashes = std::find_if(argv, end, [](const char *word) { return !strcmp(word, "--"); });
    bool runs = std::any_of(argv, dashes, [](const char *word) { return !strcmp(word, "run"); });
    if (dashes == end || !runs) return argc;
    context.after_dashes.emplace(dashes + 1, end);
    return static_cast<int>(dashes - argv);
}

// CLI11's shorter sentences, for people who do not know it.
std::string reworded(std::string what)
{
    if (what.size() > 1000) return what;  // std::regex recurses
    std::smatch part;
    if (std::regex_match(what, part, std::regex("Could not convert: (\\S+) = (.*)")))
        return part.str(1) + ": a number is wanted, not \"" + part.str(2) + "\"";
    if (std::regex_match(what, part, std::regex("(\\S+): At Most 1 required but received (\\d+)")))
        return part.str(1) + ": it was given " + part.str(2) + " times, and once is the most";
    if (std::regex_match(what, part, std::regex("(\\S+): 1 required (\\S+) missing")))
        return part.str(1) + ": " + part.str(2) + " is missing behind it";
    return what;
}

// What CLI11 found wrong, in the words of all other messages.
std::string wrong_usage(const CLI::App *app, const CLI::Error &error)
{
    std::string what = error.what();
    std::vector<std::string> left = app->remaining(true);
    if (what.find("subcommand") != what.npos && !left.empty())
        what = "there is no subcommand \"" + left.front() + "\"";
    else if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::ExtrasError)) {
        // CLI11 joins them last one first.
        while (!app->get_subcommands().empty()) app = app->get_subcommands().front();
        left = app->remaining();
        what = left.size() == 1 ? "this argument is one too many:"
                                : "these arguments are too many:";
        for (const std::string &word : left) what += " " + word;
    }
    what = reworded(std::move(what));
    return "rgpu: " + what + "; see rgpu --help\n";
}

int run(int argc, char **argv)
{
    CLI::App app("Remote GPUs: what the pool has, and programs that use it.", "rgpu");
    Context context;
    app.set_help_all_flag("--help-all", "Show the help of every subcommand");
    app.set_version_flag("-V,--version", version_line("rgpu"));
    app.add_option("-c,--config", context.config_option,
                   "Read this file instead of $RGPU_CONF or rgpu.conf's own place")
        ->type_name("FILE");
    app.require_subcommand(1);
    app.failure_message(wrong_usage);
    Parsers parsers;
    parsers.add_all(app);
    context.app = &app;
    // In a job, the command alone says what the job has.
    const char *mine[] = {argv[0], "list", "--mine"};
    const bool alone = argc == 1 && my_lease_file();
    try {
        if (alone)
            app.parse(3, mine);
        else
            app.parse(cut_at_dashes(argc, argv, context), argv);
    } catch (const CLI::ParseError &result) {
        // --help and --version come this way, too, with status 0.
        return app.exit(result) == 0 ? kOk : kUsage;
    }
    for (auto &[leaf, command] : parsers.leaves)
        if (leaf->parsed()) return command->run(context);
    return kUsage;
}

}  // namespace
}  // namespace rgpu::cli

int main(int argc, char **argv)
{
    signal(SIGPIPE, SIG_IGN);
    try {
        return rgpu::cli::run(argc, argv);
    } catch (const std::exception &failure) {
        fprintf(stderr, "rgpu: %s\n", failure.what());
        return rgpu::cli::kFailed;
    }
}
