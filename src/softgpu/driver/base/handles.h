// SPDX-License-Identifier: Apache-2.0
// Handles that programs hold: the address of an object that is registered here, so that any value a
// program passes can be checked, and an object stays while a call uses it.
//
// The table holds one reference; destroying a handle gives it up. A value whose object is gone may
// come back as another object's handle, as with any allocator.
#pragma once

#include <memory>
#include <shared_mutex>
#include <unordered_map>
#include <vector>

namespace rgpu::softgpu::driver {

// Any thread. T: the object. H: the CUDA handle type.
template <class T, class H> class Handles {
public:
    // Known from now on.
    H add(std::shared_ptr<T> object)
    {
        H handle = reinterpret_cast<H>(object.get());
        std::unique_lock lock(mutex_);
        objects_[handle] = std::move(object);
        return handle;
    }

    // Null when there is no such handle.
    std::shared_ptr<T> find(H handle) const
    {
        std::shared_lock lock(mutex_);
        auto it = objects_.find(handle);
        return it == objects_.end() ? nullptr : it->second;
    }

    // Unknown from now on; the caller has the last reference of the table. Null when it was
    // unknown.
    std::shared_ptr<T> remove(H handle)
    {
        std::unique_lock lock(mutex_);
        auto it = objects_.find(handle);
        if (it == objects_.end()) return nullptr;
        std::shared_ptr<T> gone = std::move(it->second);
        objects_.erase(it);
        return gone;
    }

    // All for which `test(object)` holds, taken out.
    template <class Test> std::vector<std::shared_ptr<T>> remove_if(Test test)
    {
        std::vector<std::shared_ptr<T>> gone;
        std::unique_lock lock(mutex_);
        for (auto it = objects_.begin(); it != objects_.end();) {
            if (!test(*it->second)) {
                ++it;
                continue;
            }
            gone.push_back(std::move(it->second));
            it = objects_.erase(it);
        }
        return gone;
    }

private:
    mutable std::shared_mutex mutex_;
    std::unordered_map<H, std::shared_ptr<T>> objects_;
};

}  // namespace rgpu::softgpu::driver
