// SPDX-License-Identifier: Apache-2.0
#include "cli/parts/conf_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <sstream>

#include "util/fd.h"

namespace rgpu::cli {
namespace {

const ServerEntry *find(const Config &config, const std::string &name)
{
    for (const ServerEntry &server : config.servers)
        if (server.name == name) return &server;
    return nullptr;
}

std::vector<std::string> lines_of(const std::string &text)
{
    std::vector<std::string> lines;
    std::istringstream in(text);
    for (std::string line; std::getline(in, line);) lines.push_back(line);
    return lines;
}

Error cannot(const std::string &path)
{
    return error(ErrorKind::invalid, "cannot write %s: %s", path.c_str(), strerror(errno));
}

}  // namespace

Result<std::string> with_pins(const std::string &text, const Config &read,
                              const std::vector<ConfPin> &pins)
{
    std::vector<std::string> lines = lines_of(text);
    // From the last on: what is inserted moves what is below.
    std::vector<std::pair<const ServerEntry *, std::string>> changes;
    for (const ConfPin &one : pins)
        if (const ServerEntry *server = find(read, one.server))
            changes.emplace_back(server, one.pin);
    std::sort(changes.begin(), changes.end(),
              [](const auto &a, const auto &b) { return a.first->name_line > b.first->name_line; });
    for (const auto &[server, pin] : changes) {
        const size_t at = server->pin_line ? server->pin_line : server->name_line;
        if (at == 0 || at > lines.size()) continue;
        const std::string &old = lines[at - 1];
        const std::string line = old.substr(0, old.find_first_not_of(" \t")) + "pin = \"" + pin +
                                 "\"";
        if (server->pin_line)
            lines[at - 1] = line;
        else
            lines.insert(lines.begin() + static_cast<std::ptrdiff_t>(at), line);
    }
    std::string out;
    for (const std::string &line : lines) out += line + "\n";
    Result<Config> again = parse_config(out, read.path);
    for (const ConfPin &one : pins) {
        const ServerEntry *server = again ? find(*again, one.server) : nullptr;
        if (!server || server->pin != one.pin || again->servers.size() != read.servers.size())
            return error(ErrorKind::invalid,
                         "%s is written in a way that cannot be changed here: add pin = \"%s\" to "
                         "the [[server]] of %s",
                         read.path.c_str(), one.pin.c_str(), one.server.c_str());
    }
    return out;
}

Result<void> write_pins(const Config &config, const std::vector<ConfPin> &pins)
{
    // What a link leads to is changed, not the link.
    const std::unique_ptr<char, decltype(&::free)> real(realpath(config.path.c_str(), nullptr),
                                                        ::free);
    const std::string path = real ? real.get() : config.path;
    std::ifstream in(path, std::ios::binary);
    std::stringstream text;
    text << in.rdbuf();
    struct stat about {};
    if (!in || stat(path.c_str(), &about) != 0) return cannot(path);
    // Read again: it may have changed since it was read.
    Result<Config> read = parse_config(text.str(), config.path);
    if (!read) return std::move(read).error();
    Result<std::string> changed = with_pins(text.str(), *read, pins);
    if (!changed) return std::move(changed).error();
    const std::string fresh = path + ".new";
    unlink(fresh.c_str());
    Fd file(open(fresh.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, about.st_mode & 0777));
    const bool written = file && fchmod(file.get(), about.st_mode & 07777) == 0 &&
                         (geteuid() != 0 || fchown(file.get(), about.st_uid, about.st_gid) == 0) &&
                         write(file.get(), changed->data(), changed->size()) ==
                             static_cast<ssize_t>(changed->size()) &&
                         fsync(file.get()) == 0 && rename(fresh.c_str(), path.c_str()) == 0;
    if (written) return {};
    Error why = cannot(path);
    unlink(fresh.c_str());
    return why;
}

}  // namespace rgpu::cli
