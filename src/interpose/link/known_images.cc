// SPDX-License-Identifier: Apache-2.0
#include "interpose/link/known_images.h"

#include <new>

namespace rgpu::interpose {

void KnownImages::learn(const wire::Snapshot &snapshot)
{
    std::lock_guard lock(mutex_);
    any_known_ = snapshot.keeps_images;
    tags_.insert(snapshot.images.begin(), snapshot.images.end());
}

bool KnownImages::has(const Digest &digest) const
{
    std::lock_guard lock(mutex_);
    return tags_.contains(wire::image_tag(digest));
}

void KnownImages::set(const Digest &digest, bool has) noexcept
{
    std::lock_guard lock(mutex_);
    if (!has) {
        tags_.erase(wire::image_tag(digest));
        return;
    }
    try {
        tags_.insert(wire::image_tag(digest));
    } catch (const std::bad_alloc &) {
        // The image's bytes are sent once more, then.
    }
}

}  // namespace rgpu::interpose
