// SPDX-License-Identifier: Apache-2.0
// Reads lease.json.
#include "interpose/base/lease.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "interpose/base/log.h"
#include "net/handshake/data_connection.h"
#include "util/fd.h"
#include "util/json_reader.h"
#include "util/lease_gpus.h"
#include "util/sha256.h"

namespace rgpu::interpose {

namespace {

constexpr size_t kMaxLeaseFile = 1 << 20;

Result<std::string> read_file(const std::string &path)
{
    Fd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!fd)
        return error(ErrorKind::unavailable, "lease file %s: %s%s", path.c_str(), strerror(errno),
                     errno == ENOENT ? " (has the job that it belongs to ended?)" : "");
    std::string text;
    char buffer[4096];
    for (ssize_t n; (n = read(fd.get(), buffer, sizeof buffer)) > 0 && text.size() < kMaxLeaseFile;)
        text.append(buffer, static_cast<size_t>(n));
    return text;
}

// Gives each server its GPUs; every server of the file has its place in `servers`.
void add_gpus(const Json &lease, std::vector<LeaseServer> &servers)
{
    std::vector<LeaseGpu> gpus = lease_gpus(lease);
    std::vector<ServerGpu> places;
    for (const LeaseGpu &gpu : gpus) places.push_back(gpu.place);
    std::vector<std::string> addresses = pci_addresses(places);
    for (size_t i = 0; i < gpus.size(); i++)
        servers[gpus[i].server].gpus.push_back({std::move(gpus[i].uuid), std::move(gpus[i].name),
                                                gpus[i].memory, std::move(addresses[i])});
}

}  // namespace

Result<std::vector<LeaseServer>> read_lease(const std::string &path)
{
    auto text = read_file(path);
    if (!text) return std::move(text).error();
    auto json = Json::parse(*text);
    if (!json) return std::move(json).error().in("lease file " + path);
    std::vector<LeaseServer> servers;
    const Json *list = json->get("servers");
    if (list && list->array())
        for (const Json &s : *list->array()) {
            LeaseServer &server = servers.emplace_back();
            server.name = s.text("name");
            server.address = s.text("address");
            server.lease = s.text("lease");
            if (server.address.empty() || server.lease.empty() ||
                !from_hex(s.text("secret"), server.secret) || server.secret.empty())
                return error(ErrorKind::invalid,
                             "lease file %s: a server needs \"address\", \"lease\" and \"secret\"",
                             path.c_str());
        }
    if (servers.empty())
        return error(ErrorKind::invalid, "lease file %s names no server", path.c_str());
    add_gpus(*json, servers);
    return servers;
}

void say_waiting(const LeaseServer &server)
{
    say("server %s (%s) takes no connections, as while its rgpud is started again; trying for %d s",
        server.name.c_str(), server.address.c_str(), static_cast<int>(net::kRestartTime.count()));
}

}  // namespace rgpu::interpose
