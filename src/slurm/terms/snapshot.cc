// SPDX-License-Identifier: Apache-2.0
// Reads, writes and judges by the pool snapshot.
#include "slurm/terms/snapshot.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <map>
#include <sys/stat.h>
#include <unistd.h>

#include "util/defaults.h"
#include "util/driver_release.h"
#include "util/format.h"
#include "util/units.h"

namespace rgpu::slurm {
namespace {

constexpr std::string_view kFirstLine = "rgpu-pool 1\n";
constexpr size_t kServersInSentence = 8;
constexpr std::string_view kUntold = "-";  // the release of a driver that its server does not tell

std::string_view word(std::string_view &line)
{
    line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
    std::string_view out = line.substr(0, line.find(' '));
    line.remove_prefix(out.size());
    return out;
}

template <class T> bool number(std::string_view text, T &value)
{
    const char *end = text.data() + text.size();
    auto [stop, ec] = std::from_chars(text.data(), end, value);
    return !text.empty() && ec == std::errc() && stop == end;
}

bool larger(const PoolServer &a, const PoolServer &b)
{
    if (a.gpus != b.gpus) return a.gpus > b.gpus;
    return a.memory != b.memory ? a.memory > b.memory : a.name < b.name;
}

// "gpu1 2, gpu2 2"
std::string list_text(const Snapshot &pool)
{
    std::string out;
    size_t shown = std::min(pool.servers.size(), kServersInSentence);
    for (size_t i = 0; i < shown; ++i)
        (out += i ? ", " : "") += pool.servers[i].name + " " + std::to_string(pool.servers[i].gpus);
    if (shown < pool.total_servers) out += ", ...";
    return out;
}

// The server is one of those asked for, and its driver new enough.
bool right_server(const PoolServer &s, const Filters &filters)
{
    bool named = filters.servers.empty() ||
                 std::find(filters.servers.begin(), filters.servers.end(), s.name) !=
                     filters.servers.end();
    return named && (!s.driver || !is_older_release(*s.driver, filters.driver));
}

bool right_model(const PoolModel &m, const Request &request)
{
    const Filters &f = request.filters;
    bool named = f.names.empty() ||
                 std::any_of(f.names.begin(), f.names.end(),
                             [&](const std::string &part) { return holds(m.name, part); });
    return named && holds(m.name, name_of_type(request.type)) && m.memory >= f.memory &&
           m.compute_capability >= f.compute_capability && (m.cuda == 0 || m.cuda >= f.cuda);
}

// How many of the server's GPUs the list of UUIDs leaves.
unsigned named_gpus(const PoolServer &s, const Filters &filters)
{
    if (filters.uuids.empty() || s.uuids.empty()) return s.gpus;
    return static_cast<unsigned>(
        std::count_if(s.uuids.begin(), s.uuids.end(), [&](const std::string &uuid) {
            return std::find(filters.uuids.begin(), filters.uuids.end(), uuid) !=
                   filters.uuids.end();
        }));
}

// How many of the server's GPUs are of the kind, with so much memory. What the snapshot does not
// tell is taken to be right.
unsigned right_gpus(const PoolServer &s, const Request &request, uint64_t memory)
{
    if (!right_server(s, request.filters)) return 0;
    const unsigned named = named_gpus(s, request.filters);
    if (s.models.empty()) return s.memory >= std::max(memory, request.filters.memory) ? named : 0;
    unsigned sum = 0;
    for (const PoolModel &m : s.models)
        if (m.memory >= memory && right_model(m, request)) sum += m.gpus;
    return std::min(sum, named);
}

bool has_filters(const Request &request)
{
    const Filters &f = request.filters;
    return !request.type.empty() || !f.servers.empty() || !f.names.empty() || !f.uuids.empty() ||
           f.memory || f.compute_capability || f.cuda || !f.driver.empty();
}

// How many requests of this form fit at once. A GPU holds as many tenants as the least share
// allows.
unsigned long places(const Snapshot &pool, const Request &request)
{
    const unsigned long tenants = 100 / std::max(1u, request.share.least);
    unsigned long sum = 0, all = 0;
    for (const PoolServer &s : pool.servers) {
        unsigned long right = right_gpus(s, request, request.memory.value_or(0));
        all += right;
        if (right >= request.gpus) sum += right * tenants / request.gpus;
    }
    if (request.span) return all >= request.gpus ? all * tenants / request.gpus : 0;
    return sum;
}

// What one request could have if nobody held anything.
unsigned long most_right(const Snapshot &pool, const Request &request)
{
    unsigned long most = 0, all = 0;
    for (const PoolServer &s : pool.servers) {
        unsigned long right = right_gpus(s, request, 0);
        most = std::max(most, right);
        all += right;
    }
    return request.span ? all : most;
}

// "gpu1 2 NVIDIA A100, gpu2 2 NVIDIA H100"
std::string models_text(const Snapshot &pool)
{
    std::string out;
    size_t shown = 0;
    for (const PoolServer &s : pool.servers)
        for (const PoolModel &m : s.models)
            if (shown++ < kServersInSentence)
                (out += out.empty() ? "" : ", ") += s.name + " " + std::to_string(m.gpus) + " " +
                                                    m.name;
    return shown > kServersInSentence ? out + ", ..." : out.empty() ? list_text(pool) : out;
}

// " (drivers: gpu1 580.95.05, gpu2 does not tell)", where that is asked for and known.
std::string drivers_text(const Snapshot &pool, const Filters &filters)
{
    std::string out;
    size_t shown = 0;
    for (const PoolServer &s : pool.servers)
        if (!filters.driver.empty() && s.driver && shown++ < kServersInSentence)
            (out += out.empty() ? " (drivers: " : ", ") +=
                s.name + " " + (s.driver->empty() ? "does not tell" : *s.driver);
    return out.empty() ? out : out + (shown > kServersInSentence ? ", ...)" : ")");
}

std::string joined(const std::vector<std::string> &names)
{
    std::string out;
    for (const std::string &name : names) (out += out.empty() ? "" : ",") += name;
    return out.size() > 80 ? out.substr(0, 80) + "..." : out;
}

// "of type a100 (--rgpu-server=gpu1 --rgpu-min-cc=9.0)": what the GPUs have to be.
std::string kind_text(const Request &request)
{
    const Filters &f = request.filters;
    const auto cc = static_cast<unsigned>(f.compute_capability),
               cuda = static_cast<unsigned>(f.cuda);
    const std::pair<const char *, std::string> asked[] = {
        {"server", joined(f.servers)},
        {"name", joined(f.names)},
        {"uuid", joined(f.uuids)},
        {"min-memory", f.memory ? format_size(f.memory) : ""},
        {"min-cc", cc ? std::to_string(cc / 10) + "." + std::to_string(cc % 10) : ""},
        {"min-cuda",
         cuda ? std::to_string(cuda / 1000) + "." + std::to_string(cuda % 1000 / 10) : ""},
        {"min-driver", f.driver}};
    std::string options;
    for (const auto &[option, value] : asked)
        if (!value.empty())
            (options += options.empty() ? " (--rgpu-" : " --rgpu-") += std::string(option) + "=" +
                                                                       value;
    return (request.type.empty() ? "of this kind" : "of type " + request.type) + options +
           (options.empty() ? "" : ")");
}

// With --rgpu-span such a request could be served.
bool span_would_do(const Snapshot &pool, Request request)
{
    request.span = true;
    return pool.complete() && places(pool, request) > 0;
}

// Refuses more GPUs on a node than one server has, or all with a span, whatever their kind.
Result<void> refuse_size(const Snapshot &pool, const Request &request)
{
    const unsigned most = request.span ? pool.total_gpus : pool.servers.front().gpus;
    if (request.gpus <= most || (has_filters(request) && pool.complete())) return {};
    const bool would_span = !request.span && span_would_do(pool, request);
    return error(
        ErrorKind::invalid, "%s on one node %s asked for, but %s %u (%s); ask for at most %u%s%s",
        counted(request.gpus, "GPU").c_str(), request.gpus == 1 ? "was" : "were",
        request.span ? "the whole pool has" : "no server has more than", most,
        list_text(pool).c_str(), most, request.gpus <= pool.total_gpus ? ", or for more nodes" : "",
        would_span ? ", or for GPUs of several servers (--rgpu-span)" : "");
}

// Refuses a UUID that no server has, where those of all are known.
Result<void> refuse_unknown_uuid(const Snapshot &pool, const Filters &filters)
{
    if (!pool.complete()) return {};
    for (const PoolServer &s : pool.servers)
        if (s.uuids.size() != s.gpus) return {};
    for (const std::string &uuid : filters.uuids)
        if (std::none_of(pool.servers.begin(), pool.servers.end(), [&](const PoolServer &s) {
                return std::find(s.uuids.begin(), s.uuids.end(), uuid) != s.uuids.end();
            }))
            return error(ErrorKind::invalid,
                         "--rgpu-uuid=%.80s: no server of the pool has this GPU; rgpu list --json "
                         "names them all",
                         uuid.c_str());
    return {};
}

// Refuses filters that no server passes with as many GPUs.
Result<void> refuse_kind(const Snapshot &pool, const Request &request)
{
    if (!has_filters(request)) return {};
    for (const std::string &name : request.filters.servers)
        if (pool.complete() && std::none_of(pool.servers.begin(), pool.servers.end(),
                                            [&](const auto &s) { return s.name == name; }))
            return error(ErrorKind::invalid,
                         "--rgpu-server=%.80s: the pool has no such server (%s)", name.c_str(),
                         list_text(pool).c_str());
    if (!request.filters.uuids.empty() && request.filters.uuids.size() < request.gpus)
        return error(ErrorKind::invalid,
                     "--rgpu-uuid names %zu, but %s were asked for; name as many or more",
                     request.filters.uuids.size(), counted(request.gpus, "GPU").c_str());
    if (auto known = refuse_unknown_uuid(pool, request.filters); !known) return known;
    const unsigned long most = most_right(pool, request);
    if (!pool.complete() || most >= request.gpus) return {};
    const std::string of = kind_text(request);
    return error(
        ErrorKind::invalid,
        "%s %s on one node %s asked for, but no server%s has %s (%s)%s; ask for what there is%s",
        counted(request.gpus, "GPU").c_str(), of.c_str(), request.gpus == 1 ? "was" : "were",
        request.span && most ? ", nor all together," : "",
        most ? ("more than " + std::to_string(most) + " of them").c_str() : "any",
        models_text(pool).c_str(), drivers_text(pool, request.filters).c_str(),
        !request.span && span_would_do(pool, request)
            ? ", or for GPUs of several servers (--rgpu-span)"
            : "");
}

}  // namespace

std::string snapshot_path()
{
    const char *path = getenv("RGPU_SNAPSHOT");
    return path && *path ? path : defaults::kSnapshotPath;
}

namespace {

PoolServer *server_named(Snapshot &pool, std::string_view name)
{
    for (PoolServer &server : pool.servers)
        if (server.name == name) return &server;
    return nullptr;
}

// Each reads the rest of a line; false where it is not understood.
bool read_model(Snapshot &pool, std::string_view line)
{
    PoolServer *of = server_named(pool, word(line));
    PoolModel m;
    if (!of || !number(word(line), m.gpus) || !number(word(line), m.memory) ||
        !number(word(line), m.compute_capability) || !number(word(line), m.cuda) ||
        line.size() <= 1)
        return false;
    m.name = line.substr(1);
    of->models.push_back(std::move(m));
    return true;
}

bool read_driver(Snapshot &pool, std::string_view line)
{
    std::string_view release = word(line);
    if (release != kUntold && !is_driver_release(release)) return false;
    for (std::string_view name = word(line); !name.empty(); name = word(line)) {
        PoolServer *of = server_named(pool, name);
        if (!of) return false;
        of->driver = release == kUntold ? "" : release;
    }
    return true;
}

bool read_uuids(Snapshot &pool, std::string_view line)
{
    PoolServer *of = server_named(pool, word(line));
    if (!of) return false;
    for (std::string_view uuid = word(line); !uuid.empty(); uuid = word(line))
        of->uuids.emplace_back(uuid);
    return true;
}

bool read_server(Snapshot &pool, std::string_view line)
{
    PoolServer s{std::string(word(line)), 0, 0};
    if (s.name.empty() || !number(word(line), s.gpus) || !number(word(line), s.memory))
        return false;
    pool.servers.push_back(std::move(s));
    return true;
}

}  // namespace

Result<Snapshot> parse_snapshot(std::string_view text)
{
    if (text.size() > kSnapshotBytes || !text.starts_with(kFirstLine))
        return Error{ErrorKind::invalid, "it is not a pool snapshot (version 1)"};
    Snapshot out;
    bool total = false;
    text.remove_prefix(kFirstLine.size());
    for (unsigned line_number = 2; !text.empty(); ++line_number) {
        std::string_view line = text.substr(0, text.find('\n'));
        text.remove_prefix(std::min(line.size() + 1, text.size()));
        std::string_view kind = word(line);
        bool good = true;
        if (kind == "total") {
            good = number(word(line), out.total_servers) && number(word(line), out.total_gpus);
            total = true;
        } else if (kind == "gpus_mean_rgpu") {
            out.facts.gpus_mean_rgpu = true;
        } else if (kind == "no_node_gpus") {
            out.facts.no_node_gpus = true;
        } else if (kind == "server") {
            good = read_server(out, line);
        } else if (kind == "model") {
            good = read_model(out, line);
        } else if (kind == "driver") {
            good = read_driver(out, line);
        } else if (kind == "uuid") {
            good = read_uuids(out, line);
        }
        if (!good) return error(ErrorKind::invalid, "line %u is not understood", line_number);
    }
    if (!total || out.total_servers < out.servers.size())
        return Error{ErrorKind::invalid, "it is not complete"};
    std::sort(out.servers.begin(), out.servers.end(), larger);
    return out;
}

std::string format_snapshot(std::vector<PoolServer> servers, const SlurmFacts &facts)
{
    std::sort(servers.begin(), servers.end(), larger);
    unsigned gpus = 0;
    for (const PoolServer &s : servers) gpus += s.gpus;
    std::string out = std::string(kFirstLine) + "total " + std::to_string(servers.size()) + " " +
                      std::to_string(gpus) + "\n" +
                      (facts.gpus_mean_rgpu ? "gpus_mean_rgpu\n" : "") +
                      (facts.no_node_gpus ? "no_node_gpus\n" : "");
    for (const PoolServer &s : servers) {
        std::string line = "server " + s.name + " " + std::to_string(s.gpus) + " " +
                           std::to_string(s.memory) + "\n";
        if (out.size() + line.size() > kSnapshotBytes) break;
        out += line;
    }
    std::string models;
    for (const PoolServer &s : servers)
        for (const PoolModel &m : s.models)
            models += "model " + s.name + " " + std::to_string(m.gpus) + " " +
                      std::to_string(m.memory) + " " + std::to_string(m.compute_capability) + " " +
                      std::to_string(m.cuda) + " " + m.name + "\n";
    if (out.size() + models.size() > kSnapshotBytes) return out;
    out += models;
    std::map<std::string_view, std::string> drivers;
    for (const PoolServer &s : servers)
        if (s.driver)
            drivers[is_driver_release(*s.driver) ? std::string_view(*s.driver) : kUntold] += " " +
                                                                                             s.name;
    std::string releases;
    for (const auto &[release, of] : drivers)
        (releases += "driver ") += std::string(release) + of + "\n";
    if (out.size() + releases.size() <= kSnapshotBytes) out += releases;
    std::string uuids;
    for (const PoolServer &s : servers) {
        if (s.uuids.empty()) continue;
        uuids += "uuid " + s.name;
        for (const std::string &uuid : s.uuids) uuids += " " + uuid;
        uuids += "\n";
    }
    return out + (out.size() + uuids.size() <= kSnapshotBytes ? uuids : "");
}

Result<Snapshot> read_snapshot(const std::string &path)
{
    int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return error(ErrorKind::unavailable, "%s: %s", path.c_str(), strerror(errno));
    std::string text(kSnapshotBytes + 1, '\0');
    size_t have = 0;
    ssize_t n;
    while (have < text.size() && (n = read(fd, text.data() + have, text.size() - have)) > 0)
        have += static_cast<size_t>(n);
    close(fd);
    auto out = parse_snapshot(std::string_view(text).substr(0, have));
    if (!out) return std::move(out).error().in(path);
    return out;
}

Result<void> write_snapshot(const std::string &path, std::vector<PoolServer> servers,
                            const SlurmFacts &facts)
{
    std::string text = format_snapshot(std::move(servers), facts);
    std::string fresh = path + ".new." + std::to_string(getpid());
    auto failed = [&](const char *doing) {
        Error e = error(ErrorKind::internal, "%s %s: %s", doing, fresh.c_str(), strerror(errno));
        unlink(fresh.c_str());
        return e;
    };
    int fd = open(fresh.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd < 0) return failed("creating");
    bool written = write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
    if (close(fd) != 0 || !written) return failed("writing");
    if (rename(fresh.c_str(), path.c_str()) != 0) return failed("renaming");
    return {};
}

Result<void> can_ever_fit(const Snapshot &pool, const Request &request, unsigned nodes)
{
    if (request.gpus == 0) return {};
    if (pool.servers.empty())
        return Error{ErrorKind::invalid, "the pool has no servers; ask its administrator"};
    if (auto size = refuse_size(pool, request); !size) return size;
    if (auto kind = refuse_kind(pool, request); !kind) return kind;
    uint64_t memory = 0;
    const unsigned least = request.span ? 1 : request.gpus;
    for (const PoolServer &s : pool.servers)
        memory = right_gpus(s, request, 0) >= least ? std::max(memory, s.memory) : memory;
    if (pool.complete() && request.memory.value_or(0) > memory)
        return error(ErrorKind::invalid,
                     "%s of memory on each GPU was asked for, but no server with %s has more than "
                     "%s on one; ask "
                     "for less with --rgpu-mem",
                     memory_text(*request.memory).c_str(), counted(least, "GPU").c_str(),
                     memory_text(memory).c_str());
    unsigned long fit = places(pool, request);
    if (pool.complete() && nodes > fit)
        return error(ErrorKind::invalid,
                     "%s on each of %u nodes were asked for, but the whole pool has room for %lu "
                     "such nodes (%s); "
                     "ask for fewer nodes or fewer GPUs",
                     counted(request.gpus, "GPU").c_str(), nodes, fit, list_text(pool).c_str());
    return {};
}

unsigned gpus_of_type(const PoolServer &server, const std::string &type)
{
    if (server.models.empty()) return server.gpus;
    unsigned sum = 0;
    for (const PoolModel &m : server.models) sum += is_of_type(m.name, type) ? m.gpus : 0;
    return sum;
}

std::vector<std::string> types_of(const Snapshot *pool, const Request &request,
                                  const std::vector<std::string> &types)
{
    std::vector<const PoolModel *> right;
    bool known = pool && pool->complete();
    for (size_t i = 0; known && i < pool->servers.size(); ++i) {
        const PoolServer &s = pool->servers[i];
        if (right_gpus(s, request, request.memory.value_or(0)) == 0) continue;
        known = !s.models.empty();
        for (const PoolModel &m : s.models)
            if (right_model(m, request) && m.memory >= request.memory.value_or(0))
                right.push_back(&m);
    }
    std::vector<std::string> out;
    for (const std::string &type : types) {
        const bool named = holds(type, request.type) && holds(request.type, type);
        const bool all = known && !right.empty() &&
                         std::all_of(right.begin(), right.end(),
                                     [&](const PoolModel *m) { return is_of_type(m->name, type); });
        if (named || all) out.push_back(type);
    }
    return out;
}

unsigned nodes_that_fit(const Snapshot &pool, const Request &request, unsigned nodes)
{
    return pool.complete() && request.gpus
               ? static_cast<unsigned>(std::min<unsigned long>(nodes, places(pool, request)))
               : nodes;
}

}  // namespace rgpu::slurm
