// SPDX-License-Identifier: Apache-2.0
// A context: what a program has on one device, and the order of its work there.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>

#include "calls/cuda_api.h"
#include "softgpu/driver/state/stream.h"
#include "softgpu/engine.h"

namespace rgpu::softgpu::driver {

class Device;

// Never freed: threads may still have a destroyed one on their stacks. Any thread.
class Context {
public:
    Context(Device &, bool primary, unsigned flags, unsigned api_version);

    Device &device;
    const bool is_primary;
    const unsigned api_version;
    const uint64_t id;
    std::atomic<unsigned> flags;
    Streams streams;

    CUcontext handle() { return reinterpret_cast<CUcontext>(this); }

    // --- life. A primary context lives while it is retained; others from the start until
    // destroyed. What lives in it ends by end_context() (api/context_end.h), which calls kill()
    // when its work is done, and clear() when nothing is left in it.
    bool alive() const { return alive_; }
    void retain();
    // How many references are left; nothing when it was not retained. At 0 it must end.
    std::optional<int> release();
    int references() const { return references_; }
    void kill();
    void clear();

    // --- errors: the first one of a grid stays, and every later call answers it
    CUresult error() const { return streams.error(); }
    void fail(CUresult rc) { streams.fail(rc); }
    // CONTEXT_IS_DESTROYED, the sticky error, or success.
    CUresult usable() const { return alive_ ? error() : CUDA_ERROR_CONTEXT_IS_DESTROYED; }

    CUresult synchronize() { return streams.synchronize(); }

    // --- settings
    CUresult limit(CUlimit, size_t &);
    CUresult set_limit(CUlimit, size_t);
    std::atomic<CUfunc_cache> cache_config = CU_FUNC_CACHE_PREFER_NONE;
    DeviceHeap &heap();
    bool add_peer(Context *);
    bool remove_peer(Context *);

private:
    std::atomic<bool> alive_;
    std::atomic<int> references_ = 0;

    std::mutex settings_mutex_;
    std::map<CUlimit, size_t> limits_;
    std::unique_ptr<DeviceHeap> heap_;
    std::set<Context *> peers_;
};

// --- which contexts there are

// From now on an invalid handle.
void forget_context(Context *);
// Null when the program has no such context.
Context *find_context(CUcontext);
// Waits for all that the program has given to a device.
void synchronize_all(const Device &);

}  // namespace rgpu::softgpu::driver
