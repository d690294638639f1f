// SPDX-License-Identifier: Apache-2.0
#include "smi/options.h"

#include <functional>
#include <map>

#include "util/next_token.h"
#include "util/units.h"

namespace rgpu::smi {
namespace {

constexpr unsigned kMostSeconds = 1000000;

Error wrong(const std::string &argument)
{
    return error(
        ErrorKind::invalid,
        "Invalid combination of input arguments. Please run 'nvidia-smi -h' for help. (%s)",
        argument.c_str());
}

Result<void> set_format(Options &o, const std::string &text)
{
    bool csv = false;
    for (const std::string &word : tokens(text, ", "))
        if (word == "csv")
            csv = true;
        else if (word == "noheader")
            o.header = false;
        else if (word == "nounits")
            o.units = false;
        else
            return wrong("--format=" + text + ": csv, noheader and nounits are known");
    return csv ? Result<void>() : Result<void>(wrong("--format=" + text + " has no csv"));
}

Result<void> set_loop(Options &o, const std::string &text, unsigned each)
{
    auto value = parse_integer(text, 1, kMostSeconds);
    if (!value) return wrong("loop of " + text);
    o.loop_ms = static_cast<unsigned>(*value) * each;
    return {};
}

using Set = std::function<Result<void>(Options &, const std::string &)>;

// Those with a value: "-i 0", "-i=0" and "--id=0" alike.
const std::map<std::string, Set> &valued()
{
    static const std::map<std::string, Set> all = [] {
        std::map<std::string, Set> m;
        const Set id = [](Options &o, const std::string &v) {
            return o.devices = v, Result<void>();
        };
        const Set display = [](Options &o, const std::string &v) {
            return o.display = tokens(v, ", "), Result<void>();
        };
        const Set seconds = [](Options &o, const std::string &v) { return set_loop(o, v, 1000); };
        const Set ms = [](Options &o, const std::string &v) { return set_loop(o, v, 1); };
        const Set file = [](Options &o, const std::string &v) {
            return o.file = v, Result<void>();
        };
        const Set gpu = [](Options &o, const std::string &v) {
            return o.verb = Options::query_gpu, o.fields = tokens(v, ", "), Result<void>();
        };
        const Set apps = [](Options &o, const std::string &v) {
            return o.verb = Options::query_compute_apps, o.fields = tokens(v, ", "), Result<void>();
        };
        m["-i"] = m["--id"] = id;
        m["-d"] = m["--display"] = display;
        m["-l"] = m["--loop"] = seconds;
        m["-lms"] = m["--loop-ms"] = ms;
        m["-f"] = m["--filename"] = file;
        m["--query-gpu"] = gpu;
        m["--query-compute-apps"] = apps;
        m["--format"] = set_format;
        return m;
    }();
    return all;
}

const std::map<std::string, Options::Verb> kVerbs = {
    {"-L", Options::list},
    {"--list-gpus", Options::list},
    {"-q", Options::report},
    {"--query", Options::report},
    {"--version", Options::version},
    {"-h", Options::help},
    {"--help", Options::help},
    {"--help-query-gpu", Options::help_query_gpu},
    {"--help-query-compute-apps", Options::help_query_compute_apps},
};

// Options that change a GPU.
constexpr const char *kModifying[] = {"-pm",
                                      "--persistence-mode",
                                      "-e",
                                      "--ecc-config",
                                      "-p",
                                      "--reset-ecc-errors",
                                      "-c",
                                      "--compute-mode",
                                      "-r",
                                      "--gpu-reset",
                                      "-pl",
                                      "--power-limit",
                                      "-ac",
                                      "--applications-clocks",
                                      "-rac",
                                      "--reset-applications-clocks",
                                      "-lgc",
                                      "--lock-gpu-clocks",
                                      "-rgc",
                                      "--reset-gpu-clocks",
                                      "-lmc",
                                      "--lock-memory-clocks",
                                      "-rmc",
                                      "--reset-memory-clocks",
                                      "-mig",
                                      "--multi-instance-gpu",
                                      "-am",
                                      "--accounting-mode",
                                      "-caa",
                                      "--clear-accounted-apps",
                                      "--gom",
                                      "-acp",
                                      "--auto-boost-permission",
                                      "--auto-boost-default"};

bool modifies(const std::string &name)
{
    for (const char *one : kModifying)
        if (name == one) return true;
    return false;
}

Result<void> check(const Options &o, bool formatted)
{
    const bool query = o.verb == Options::query_gpu || o.verb == Options::query_compute_apps;
    if (query && !formatted)
        return error(ErrorKind::invalid,
                     "\"--format=\" switch is missing. Please run 'nvidia-smi -h' for help.");
    if (!o.display.empty() && o.verb != Options::report) return wrong("-d goes with -q");
    return {};
}

}  // namespace

Result<Options> parse(int count, char **arguments)
{
    Options o;
    bool formatted = false;
    for (int i = 1; i < count; i++) {
        const std::string argument = arguments[i];
        const size_t equals = argument.starts_with("-") ? argument.find('=') : argument.npos;
        const std::string name = argument.substr(0, equals);
        if (auto set = valued().find(name); set != valued().end()) {
            std::string value = equals == argument.npos ? "" : argument.substr(equals + 1);
            const bool next = equals == argument.npos && i + 1 < count &&
                              arguments[i + 1][0] != '-';
            if (next) value = arguments[++i];
            // A loop without a time is one of five seconds.
            if (value.empty() && (name == "-l" || name == "--loop")) value = "5";
            if (value.empty()) return wrong(name + " needs a value");
            if (auto r = set->second(o, value); !r) return std::move(r).error();
            formatted = formatted || name == "--format";
        } else if (auto verb = kVerbs.find(argument); verb != kVerbs.end()) {
            o.verb = verb->second;
        } else if (argument == "-x" || argument == "--xml-format") {
            o.xml = true;
        } else if (argument == "topo" && i == 1) {
            o.verb = Options::topology;
        } else if ((argument == "-m" || argument == "--matrix") && o.verb == Options::topology) {
            continue;
        } else if (modifies(name)) {
            o.verb = Options::modify;
            break;
        } else {
            return error(ErrorKind::invalid,
                         "Option \"%s\" is not recognized. Please run 'nvidia-smi -h'.",
                         argument.c_str());
        }
    }
    if (auto r = check(o, formatted); !r) return std::move(r).error();
    return o;
}

}  // namespace rgpu::smi
