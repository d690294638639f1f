// SPDX-License-Identifier: Apache-2.0
#include "interpose/state/process.h"

#include <pthread.h>

#include <algorithm>
#include <cstdlib>

#include "interpose/base/guard.h"
#include "interpose/base/log.h"
#include "interpose/base/result.h"
#include "interpose/link/connect.h"
#include "interpose/state/client.h"
#include "interpose/state/placed_memory.h"
#include "interpose/state/ranges.h"
#include "util/visible_devices.h"
#include "wire/lease_name.h"

namespace rgpu::interpose {

namespace {

struct Start {
    std::mutex mutex;
    bool tried = false;
    CUresult result = CUDA_ERROR_NOT_INITIALIZED;
    std::atomic<bool> forked{false};
};

Start &start() { return client_part<Start>(Part::start); }

// After cuInit CUDA cannot be used in the child of a fork (CUDA C++ Programming Guide, "CUDA and
// fork"). A parent that has only asked for versions or entry points has not begun yet, and its
// child may. Either way the connection is the parent's, and a child that outlives it must not keep
// it open. Locks may be held by threads that are not here.
void in_forked_child()
{
    Start &p = start();
    const bool begun = p.forked || session();
    for (ServerSession *s : all_sessions()) s->leave_to_parent();
    new (&p) Start;
    forget_servers();
    p.forked = begun;
}

// The program's GPUs: of all those of the servers, one after the other, the ones that
// CUDA_VISIBLE_DEVICES lets it see, in its order. Servers without any are left out; the others'
// lease names say which GPUs are seen. False where none is.
bool choose_gpus(std::vector<LeaseServer> &servers, std::vector<ProgramDevice> &devices)
{
    std::vector<std::string> uuids;
    std::vector<ProgramDevice> all;
    for (unsigned s = 0; s < servers.size(); s++)
        for (const LeasedGpu &gpu : servers[s].gpus) {
            all.push_back({s, static_cast<CUdevice>(all.empty() || all.back().server != s
                                                        ? 0
                                                        : all.back().number + 1)});
            uuids.push_back(gpu.uuid);
        }
    // A lease file without GPUs is another version's, for one server: all of them then.
    if (all.empty()) return servers.resize(1), true;
    std::vector<std::vector<int>> seen(servers.size());
    for (int place : visible_devices(getenv("CUDA_VISIBLE_DEVICES"), uuids)) {
        const ProgramDevice &p = all[static_cast<size_t>(place)];
        devices.push_back({p.server, static_cast<CUdevice>(seen[p.server].size())});
        seen[p.server].push_back(p.number);
    }
    std::vector<LeaseServer> used;
    for (unsigned s = 0; s < servers.size(); s++) {
        if (seen[s].empty()) continue;
        for (ProgramDevice &p : devices)
            if (p.server == s) p.server = static_cast<unsigned>(used.size());
        LeaseServer &server = used.emplace_back(std::move(servers[s]));
        const bool whole = seen[s].size() == server.gpus.size() &&
                           std::is_sorted(seen[s].begin(), seen[s].end());
        if (!whole) server.lease = wire::to_text({server.lease, seen[s]});
    }
    servers = std::move(used);
    return !servers.empty();
}

CUresult open_session(const LeaseServer &server, size_t index, ServerSession *&out)
{
    auto session = connect(server, static_cast<uint32_t>(index));
    if (session) {
        out = *session;
        return CUDA_SUCCESS;
    }
    say("no GPU from server %s (%s): %s", server.name.c_str(), server.address.c_str(),
        session.error().text.c_str());
    return result_of(session.error().kind, Doing::connecting);
}

// All at once: each takes some round trips, and perhaps the start of a worker. Where there are no
// threads, one after the other.
CUresult open_all(const std::vector<LeaseServer> &servers, std::vector<ServerSession *> &sessions)
{
    std::vector<CUresult> results(servers.size());
    const auto open = [&](size_t i) {
        results[i] = guard("cuInit", [&] { return open_session(servers[i], i, sessions[i]); });
    };
    std::vector<std::thread> others;
    others.reserve(servers.size());
    size_t begun = 1;
    try {
        for (; begun < servers.size(); begun++)
            others.emplace_back([&open, i = begun] { open(i); });
    } catch (const std::exception &) {
        // The rest below.
    }
    open(0);
    for (size_t i = begun; i < servers.size(); i++) open(i);
    for (std::thread &t : others) t.join();
    for (CUresult r : results)
        if (r) return r;
    return CUDA_SUCCESS;
}

CUresult open_sessions()
{
    const char *path = getenv("RGPU_LEASE");
    if (!path || !*path) {
        say("this program holds no lease on a GPU (RGPU_LEASE is not set); "
            "start it with srun --gres=rgpu:1 or rgpu run -n 1");
        return CUDA_ERROR_NO_DEVICE;
    }
    auto servers = read_lease(path);
    if (!servers) {
        say("%s", servers.error().text.c_str());
        return CUDA_ERROR_NO_DEVICE;
    }
    std::vector<ProgramDevice> devices;
    if (!choose_gpus(*servers, devices)) return CUDA_ERROR_NO_DEVICE;
    if (servers->size() > kMostServers) {
        say("lease file %s names %zu servers with GPUs for this program; one program can use those "
            "of %zu",
            path, servers->size(), kMostServers);
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    if (!Handles::get().is_there()) {
        say("the table of CUDA's handles finds no room among this process's addresses; raise "
            "ulimit -v");
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    std::vector<ServerSession *> sessions(servers->size());
    if (CUresult r = open_all(*servers, sessions)) return r;
    set_servers(sessions, std::move(devices));
    for (ServerSession *s : sessions) {
        reserve_device_range(*s);
        placed::begin(*s);
    }
    pthread_atfork(nullptr, nullptr, in_forked_child);
    return CUDA_SUCCESS;
}

}  // namespace

CUresult connect_once()
{
    Start &p = start();
    if (p.forked) return CUDA_ERROR_NOT_INITIALIZED;
    std::lock_guard lock(p.mutex);
    if (!p.tried) {
        p.result = open_sessions();
        p.tried = true;  // not where it threw: the next call may find more memory
    }
    return p.result;
}

int driver_version()
{
    if (connect_once()) return CUDA_VERSION;
    int lowest = all_sessions().front()->snapshot().driver_version;
    for (const ServerSession *s : all_sessions())
        lowest = std::min(lowest, s->snapshot().driver_version);
    return lowest;
}

bool server_has(calls::CallId id)
{
    if (calls::info(id).mode == calls::Mode::local || connect_once()) return true;
    const auto &all = all_sessions();
    return std::all_of(all.begin(), all.end(),
                       [id](const ServerSession *s) { return s->server_has(id); });
}

CUresult not_ready()
{
    Start &p = start();
    return p.tried && p.result && !p.forked ? p.result : CUDA_ERROR_NOT_INITIALIZED;
}

}  // namespace rgpu::interpose
