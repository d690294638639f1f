// SPDX-License-Identifier: Apache-2.0
// The objects, who holds how many references to each, and the destructor of the last.
#include "interpose/graph/user_object.h"

#include <atomic>
#include <map>
#include <mutex>
#include <set>

#include "interpose/state/client.h"
#include "interpose/state/process.h"
#include "interpose/stream/callback.h"
#include "interpose/stub/by_hand.h"

namespace rgpu::interpose {

namespace {

struct Object {
    void *data = nullptr;
    CUhostFn destroy = nullptr;
    size_t references = 0;
};
using References = std::map<Object *, size_t>;

struct Objects {
    std::mutex mutex;
    std::set<Object *> all;
    size_t callers = 0;
    std::map<HandleId, References> held;  // by graphs and executable graphs
    std::map<HandleId, std::set<CUstream>>
        streams;  // that an executable graph with objects was launched in
    std::atomic<bool> any{false};
};

Objects &objects() { return client_part<Objects>(Part::user_objects); }

Object *as_object(CUuserObject handle)
{
    auto o = reinterpret_cast<Object *>(handle);
    return objects().all.contains(o) ? o : nullptr;
}

// Drops references; the destructors of objects that have none left are called without the lock.
void drop(std::unique_lock<std::mutex> &lock, const References &references)
{
    std::vector<Object> dead;
    for (auto [o, n] : references) {
        o->references -= std::min(n, o->references);
        if (o->references) continue;
        dead.push_back(*o);
        objects().all.erase(o);
        delete o;
    }
    lock.unlock();
    for (const Object &o : dead) o.destroy(o.data);
}

References take(HandleId holder)
{
    auto it = objects().held.find(holder);
    if (it == objects().held.end()) return {};
    References r = std::move(it->second);
    objects().held.erase(it);
    return r;
}

// What waits for the streams that a destroyed executable graph was launched in.
struct HeldReferences {
    std::atomic<size_t> streams;
    References references;
};

void stream_passed(void *data)
{
    auto w = static_cast<HeldReferences *>(data);
    if (--w->streams) return;
    std::unique_lock lock(objects().mutex);
    drop(lock, w->references);
    delete w;
}

}  // namespace

void retain_objects_of(HandleId to, HandleId from)
{
    if (!objects().any) return;
    std::lock_guard lock(objects().mutex);
    auto it = objects().held.find(from);
    if (it == objects().held.end()) return;
    const References theirs = it->second;
    for (auto [o, n] : theirs) {
        o->references += n;
        objects().held[to][o] += n;
    }
}

void release_objects(HandleId graph)
{
    if (!objects().any) return;
    std::unique_lock lock(objects().mutex);
    drop(lock, take(graph));
}

void objects_in_use(HandleId exec, CUstream stream)
{
    if (!objects().any) return;
    std::lock_guard lock(objects().mutex);
    if (objects().held.contains(exec)) objects().streams[exec].insert(stream);
}

void release_objects_when_idle(HandleId exec)
{
    if (!objects().any) return;
    std::unique_lock lock(objects().mutex);
    References references = take(exec);
    auto streams = std::move(objects().streams[exec]);
    objects().streams.erase(exec);
    if (references.empty()) return;
    std::erase_if(streams,
                  [](CUstream s) { return !Handles::get().id(s); });  // destroyed: over, or soon
    if (streams.empty()) return drop(lock, references);
    lock.unlock();
    auto *w = new HeldReferences{streams.size(), std::move(references)};
    for (CUstream s : streams)
        if (call_in_stream(s, stream_passed, w)) stream_passed(w);
}

namespace own {

CUresult cuUserObjectCreate(CUuserObject *out, void *data, CUhostFn destroy,
                            unsigned int references, unsigned int flags)
{
    if (!session()) return not_ready();
    if (!out || !destroy || !references || flags != CU_USER_OBJECT_NO_DESTRUCTOR_SYNC)
        return CUDA_ERROR_INVALID_VALUE;
    auto *o = new Object{data, destroy, references};
    std::lock_guard lock(objects().mutex);
    objects().all.insert(o);
    objects().any = true;
    *out = reinterpret_cast<CUuserObject>(o);
    return CUDA_SUCCESS;
}

CUresult cuUserObjectRetain(CUuserObject handle, unsigned int count)
{
    if (!session()) return not_ready();
    std::lock_guard lock(objects().mutex);
    Object *o = as_object(handle);
    if (!o || !count) return CUDA_ERROR_INVALID_VALUE;
    o->references += count;
    return CUDA_SUCCESS;
}

CUresult cuUserObjectRelease(CUuserObject handle, unsigned int count)
{
    if (!session()) return not_ready();
    std::unique_lock lock(objects().mutex);
    Object *o = as_object(handle);
    if (!o || !count || count > o->references) return CUDA_ERROR_INVALID_VALUE;
    drop(lock, {{o, count}});
    return CUDA_SUCCESS;
}

CUresult cuGraphRetainUserObject(CUgraph graph, CUuserObject handle, unsigned int count,
                                 unsigned int flags)
{
    if (!session()) return not_ready();
    auto id = Handles::get().id(graph);
    std::lock_guard lock(objects().mutex);
    Object *o = as_object(handle);
    if (!id || !*id || !o || !count || flags & ~unsigned{CU_GRAPH_USER_OBJECT_MOVE})
        return CUDA_ERROR_INVALID_VALUE;
    // Moved references were the caller's until now.
    if (!(flags & CU_GRAPH_USER_OBJECT_MOVE)) o->references += count;
    objects().held[*id][o] += count;
    return CUDA_SUCCESS;
}

CUresult cuGraphReleaseUserObject(CUgraph graph, CUuserObject handle, unsigned int count)
{
    if (!session()) return not_ready();
    auto id = Handles::get().id(graph);
    std::unique_lock lock(objects().mutex);
    Object *o = as_object(handle);
    if (!id || !*id || !o || !count) return CUDA_ERROR_INVALID_VALUE;
    References &held = objects().held[*id];
    auto it = held.find(o);
    if (it == held.end() || it->second < count) return CUDA_ERROR_INVALID_VALUE;
    if (!(it->second -= count)) held.erase(it);
    drop(lock, {{o, count}});
    return CUDA_SUCCESS;
}

}  // namespace own

}  // namespace rgpu::interpose
