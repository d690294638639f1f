// SPDX-License-Identifier: Apache-2.0
#include "interpose/state/servers.h"

#include <new>

#include "interpose/state/client.h"

namespace rgpu::interpose {

namespace {

struct Servers {
    std::vector<ServerSession *> sessions;
    std::vector<ProgramDevice> devices;
    std::atomic<ServerSession *> ready{nullptr};
};

Servers &servers() { return client_part<Servers>(Part::servers); }

// Plain: cudart calls on threads whose thread_locals are gone already.
constinit thread_local int t_server = -1;  // -1: the current context's

// A context of another server means nothing to this one.
uint32_t context_there(uint32_t context, unsigned server)
{
    return Handles::get().at(context)->server == server ? context : calls::kNoHandle;
}

}  // namespace

void set_servers(std::vector<ServerSession *> sessions, std::vector<ProgramDevice> devices)
{
    Servers &s = servers();
    s.sessions = std::move(sessions);
    if (s.sessions.size() < 2) return;
    for (unsigned i = 0; i < s.sessions.size(); i++)
        s.sessions[i]->set_one_of_several(i, context_there);
    s.devices = std::move(devices);
    Handles::get().span(s.sessions.size(), here);
    client_counter(Counter::several_servers).store(1, std::memory_order_release);
}

void set_initialized() { servers().ready = servers().sessions.front(); }

void forget_servers()
{
    new (&servers()) Servers;
    Handles::get().forget_servers();
    client_counter(Counter::several_servers) = 0;
    t_server = -1;
}

ServerSession *session()
{
    ServerSession *s = servers().ready.load(std::memory_order_acquire);
    return s && spanning() ? session_at(here()) : s;
}

const std::vector<ServerSession *> &all_sessions() { return servers().sessions; }

unsigned server_count()
{
    return spanning() ? static_cast<unsigned>(servers().sessions.size()) : 1;
}
ServerSession *session_at(unsigned server)
{
    return spanning() ? servers().sessions[server] : session();
}
const std::vector<ProgramDevice> &program_devices() { return servers().devices; }

int device_count()
{
    const ServerSession *s = session();
    return static_cast<int>(!s           ? 0
                            : spanning() ? program_devices().size()
                                         : s->snapshot().devices.size());
}

const wire::DeviceSnapshot *device(CUdevice d)
{
    const ServerSession *s = session();
    if (s && spanning()) {
        if (d < 0 || static_cast<size_t>(d) >= program_devices().size()) return nullptr;
        const ProgramDevice &p = program_devices()[static_cast<size_t>(d)];
        s = session_at(p.server), d = p.number;
    }
    if (!s || d < 0 || static_cast<size_t>(d) >= s->snapshot().devices.size()) return nullptr;
    return &s->snapshot().devices[static_cast<size_t>(d)];
}

unsigned here()
{
    if (!spanning()) return 0;
    if (t_server >= 0) return static_cast<unsigned>(t_server);
    const HandleId context = current_context();
    return context ? Handles::get().at(context)->server : servers().devices.front().server;
}

bool is_here(HandleId id)
{
    if (!spanning() || id < calls::kFirstHandle) return true;
    const uint8_t server = Handles::get().at(id)->server;
    return server == kEverywhere || server == here();
}

HandleId context_of(HandleId id)
{
    constexpr int kDeepest =
        8;  // a node of a graph in a graph; a function, its module, the context
    for (int i = 0; id >= calls::kFirstHandle && i < kDeepest; i++) {
        const Slot *s = Handles::get().at(id);
        if (s->kind.load(std::memory_order_acquire) == HandleKind::context) return id;
        id = s->parent;
    }
    return calls::kNoHandle;
}

unsigned server_of(CUdevice d)
{
    return spanning() ? servers().devices[static_cast<size_t>(d)].server : 0;
}

CUdevice to_wire(CUdevice d)
{
    if (!spanning()) return d;
    const auto &all = servers().devices;
    if (d < 0 || static_cast<size_t>(d) >= all.size())
        return d;  // the driver knows what to say to it
    const ProgramDevice &p = all[static_cast<size_t>(d)];
    return p.server == here() ? p.number : -1;
}

CUdevice from_wire(CUdevice number)
{
    if (!spanning()) return number;
    const auto &all = servers().devices;
    for (size_t d = 0; d < all.size(); d++)
        if (all[d].server == here() && all[d].number == number) return static_cast<CUdevice>(d);
    return number;
}

void renumber(CUmemLocation &l, CUdevice (*number)(CUdevice))
{
    if (l.type == CU_MEM_LOCATION_TYPE_DEVICE) l.id = number(l.id);
}
void renumber(CUmemAllocationProp &p, CUdevice (*number)(CUdevice))
{
    renumber(p.location, number);
}
void renumber(CUmemAccessDesc &d, CUdevice (*number)(CUdevice)) { renumber(d.location, number); }
void renumber(CUmemPoolProps &p, CUdevice (*number)(CUdevice)) { renumber(p.location, number); }

void At::go(unsigned server, HandleId context)
{
    if (gone_ || (!spanning() && !context)) return;
    if (context) push_context(context);  // first: it may throw
    pushed_ = context != calls::kNoHandle;
    gone_ = true;
    before_ = t_server;
    if (spanning()) t_server = static_cast<int>(server);
}

At::~At()
{
    if (!gone_) return;
    if (pushed_) pop_context();
    t_server = before_;
}

}  // namespace rgpu::interpose
