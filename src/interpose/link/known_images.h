// SPDX-License-Identifier: Apache-2.0
// Which module images the server has kept, as far as this process knows.
#pragma once

#include <mutex>
#include <unordered_set>

#include "wire/image.h"
#include "wire/snapshot.h"

namespace rgpu::interpose {

// Told by their digests. Any thread.
class KnownImages {
public:
    void learn(const wire::Snapshot &);
    // Whether it is worth while to make digests.
    bool any_known() const { return any_known_; }
    bool has(const Digest &) const;
    // What memory is lacking for is forgotten.
    void set(const Digest &, bool has) noexcept;

private:
    bool any_known_ = false;
    mutable std::mutex mutex_;
    std::unordered_set<uint64_t> tags_;
};

}  // namespace rgpu::interpose
