// SPDX-License-Identifier: Apache-2.0
// How a subcommand of rgpu is made: one file a subcommand.
//
//     class List : public Command { ... };
//     const Registered<List> registered{"", "list", "servers, GPUs and who holds them"};
//
// A file that stands below src/cli is in `rgpu`; nothing has to be listed elsewhere. The group is
// empty for `rgpu NAME`, "slurm" for `rgpu slurm NAME`.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "pool/client/client.h"
#include "util/config.h"
#include "util/result.h"

namespace CLI {
class App;
}

namespace rgpu::cli {

// What `rgpu` itself ends with. A command that rgpu run started goes through with its own status.
enum Exit : int {
    kOk = 0,
    kFailed = 1,        // the error is on stderr
    kUsage = 2,         // the command line is wrong
    kMarginal = 3,      // rgpu health: a check is MARGINAL
    kFatal = 4,         // rgpu health: a check is FATAL
    kNever = 121,       // rgpu run: the pool can never give this
    kNotInTime = 122,   // rgpu run: still in use when --wait ran out
    kNoServer = 123,    // no server answered
    kOwnFailure = 125,  // rgpu run: rgpu itself failed before the command started
    kNotExecutable = 126,
    kNotFound = 127,
};

// What the options before the subcommand's name said.
class Context {
public:
    std::string config_option;  // --config
    // rgpu run: what followed "--", if it was there.
    std::optional<std::vector<std::string>> after_dashes;
    const CLI::App *app = nullptr;  // with all commands and their options

    // rgpu.conf, read at the first use.
    Result<const Config *> config();
    // A client of the servers that it names, or of these of them: `invalid` where it lacks one.
    Result<pool::Client> pool(const std::vector<std::string> &only = {});

private:
    std::optional<Config> config_;
};

class Command {
public:
    virtual ~Command() = default;
    // Adds the options; called once, before the command line is parsed.
    virtual void options(CLI::App &app) = 0;
    // Does the work; returns the exit status. Errors are told with fail().
    virtual int run(Context &context) = 0;
};

struct CommandEntry {
    const char *group;
    const char *name;
    const char *help;
    std::unique_ptr<Command> (*make)();
};

std::vector<CommandEntry> &commands();

template <class T> struct Registered {
    Registered(const char *group, const char *name, const char *help)
    {
        commands().push_back({group, name, help,
                              []() -> std::unique_ptr<Command> { return std::make_unique<T>(); }});
    }
};

// --server of commands that ask servers: the names that Context::pool() takes.
void add_servers(CLI::App &app, std::vector<std::string> &servers);

// A job of Slurm's as an argument that must be there.
void add_job(CLI::App &app, std::string &job);

// Prints on stdout. Returns kOk, or kFailed where that cannot be written, which it then tells.
int print(const std::string &text);
// Prints "rgpu: <text>" on stderr and returns `status`.
int fail(const Error &error, int status = kFailed);

}  // namespace rgpu::cli
