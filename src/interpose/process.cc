// The process's state. Nothing here is ever destroyed.
#include "interpose/process.h"

#include <pthread.h>

#include <algorithm>
#include <cstdlib>
#include <map>

#include "interpose/log.h"
#include "interpose/stub.h"
#include "util/visible_devices.h"
#include "wire/lease_name.h"

namespace rgpu::interpose {

namespace {

struct Process {
    std::mutex mutex;
    bool tried = false;
    CUresult result = CUDA_ERROR_NOT_INITIALIZED;
    Session *session = nullptr;
    std::atomic<Session *> ready{nullptr};  // set by cuInit
    std::atomic<bool> forked{false};
};

Process &process()
{
    static Process &p = *new Process;
    return p;
}

struct Thread {
    std::vector<HandleId> contexts;
    struct Stream {
        HandleId id = 0;
        uint32_t stamp = 0;
    };
    std::map<HandleId, Stream> default_streams;  // by context
};
// A plain pointer: cudart calls on threads whose thread_locals are gone already.
thread_local Thread *this_thread;

Thread &thread()
{
    if (!this_thread) this_thread = new Thread;
    return *this_thread;
}

// After cuInit CUDA cannot be used in the child of a fork (CUDA C++ Programming Guide, "CUDA and fork"). A parent
// that has only asked for versions or entry points has not begun yet, and its child may. Either way the connection is
// the parent's, and a child that outlives it must not keep it open. Locks may be held by threads that are not here.
void in_forked_child()
{
    Process &p = process();
    const bool begun = p.forked || p.ready;
    if (p.session) p.session->leave_to_parent();
    new (&p) Process;
    p.forked = begun;
}

// Keeps of the server's GPUs those that CUDA_VISIBLE_DEVICES lets this program see; false where that is none.
bool choose_gpus(LeaseServer &server)
{
    const std::vector<int> seen = visible_devices(getenv("CUDA_VISIBLE_DEVICES"), server.gpus);
    // A lease file without GPUs is another version's: all of them then.
    if (server.gpus.empty()) return true;
    bool all = seen.size() == server.gpus.size() && std::is_sorted(seen.begin(), seen.end());
    if (!all) server.lease = wire::to_text({server.lease, seen});
    return !seen.empty();
}

CUresult open_session(Process &p)
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
    if (servers->size() > 1) {
        say("lease file %s names %zu servers; GPUs of several servers in one program are not "
            "supported yet", path, servers->size());
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    LeaseServer &server = servers->front();
    if (!choose_gpus(server)) return CUDA_ERROR_NO_DEVICE;
    auto session = Session::open(server);
    if (!session) {
        say("no GPU from server %s (%s): %s", server.name.c_str(), server.address.c_str(),
            session.error().text.c_str());
        return session.error().kind == ErrorKind::invalid ? CUDA_ERROR_NOT_PERMITTED
                                                          : CUDA_ERROR_SYSTEM_NOT_READY;
    }
    p.session = *session;
    reserve_device_range(p.session->snapshot());
    pthread_atfork(nullptr, nullptr, in_forked_child);
    return CUDA_SUCCESS;
}

}  // namespace

CUresult connect_once()
{
    Process &p = process();
    if (p.forked) return CUDA_ERROR_NOT_INITIALIZED;
    std::lock_guard lock(p.mutex);
    if (!p.tried) {
        p.tried = true;
        p.result = open_session(p);
    }
    return p.result;
}

int driver_version() { return connect_once() == CUDA_SUCCESS ? process().session->snapshot().driver_version : CUDA_VERSION; }

bool server_has(calls::CallId id)
{
    return calls::info(id).mode == calls::Mode::local || connect_once() != CUDA_SUCCESS || process().session->server_has(id);
}

void set_initialized() { process().ready = process().session; }

Session *session() { return process().ready.load(std::memory_order_acquire); }

CUresult not_ready()
{
    Process &p = process();
    return p.tried && p.result && !p.forked ? p.result : CUDA_ERROR_NOT_INITIALIZED;
}

const wire::DeviceSnapshot *device(CUdevice d)
{
    Session *s = session();
    if (!s || d < 0 || static_cast<size_t>(d) >= s->snapshot().devices.size()) return nullptr;
    return &s->snapshot().devices[static_cast<size_t>(d)];
}

HandleId current_context()
{
    return this_thread && !this_thread->contexts.empty() ? this_thread->contexts.back() : 0;
}

void set_current(HandleId context)
{
    auto &stack = thread().contexts;
    if (!stack.empty()) stack.pop_back();
    if (context) stack.push_back(context);
}

void push_context(HandleId context) { thread().contexts.push_back(context); }

HandleId pop_context()
{
    auto &stack = thread().contexts;
    if (stack.empty()) return 0;
    HandleId top = stack.back();
    stack.pop_back();
    return top;
}

CUresult context_state()
{
    const HandleId here = current_context();
    if (!here) return CUDA_ERROR_INVALID_CONTEXT;
    const Slot &s = *Handles::get().at(here);
    const bool lives = s.kind.load(std::memory_order_relaxed) == HandleKind::context && !s.done.load(std::memory_order_relaxed);
    return lives ? CUDA_SUCCESS : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

void forget_context(HandleId context)
{
    if (current_context() == context) pop_context();
    thread().default_streams.erase(context);
}

HandleId thread_stream()
{
    Thread::Stream &stream = thread().default_streams[current_context()];
    const auto lives = [&stream](const Slot *s) {
        return s->kind.load(std::memory_order_acquire) == HandleKind::stream && s->stamp == stream.stamp;
    };
    // It ends with a primary context that is reset.
    if (stream.id && !lives(Handles::get().at(stream.id))) stream = {};
    if (!stream.id) {
        CUstream made = nullptr;
        if (remote<calls::CallId::cuStreamCreate>(&made, CU_STREAM_DEFAULT) == CUDA_SUCCESS)
            if (const Slot *s = Handles::get().slot(made)) stream = {*Handles::get().id(made), s->stamp};
    }
    return stream.id;
}

}  // namespace rgpu::interpose
