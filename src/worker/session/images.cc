// SPDX-License-Identifier: Apache-2.0
// Images by the hex digits of their digests.
#include "worker/session/images.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "wire/frame.h"
#include "wire/image.h"

namespace rgpu::worker {

namespace {

// Bytes kept between two looks at how full the directory is; the first look is at the first image.
uint64_t look_every(uint64_t bound) { return std::min(uint64_t{32} << 20, bound / 8); }

}  // namespace

Images::Images(const std::string &directory, uint64_t bound)
    : directory_(directory), bound_(bound),
      files_(directory, FileCache::Layout::flat, bound, wire::kMaxImageBytes),
      keeps_(!directory.empty() && bound), since_look_(look_every(bound))
{}

std::vector<uint64_t> Images::tags() const
{
    std::vector<uint64_t> tags;
    if (!keeps_) return tags;
    for (const std::string &key : files_.keys(wire::kMaxImageTags)) {
        Digest digest;
        std::string bytes;
        if (!from_hex(key, bytes) || bytes.size() != digest.size()) continue;
        memcpy(digest.data(), bytes.data(), digest.size());
        tags.push_back(wire::image_tag(digest));
    }
    return tags;
}

std::optional<std::vector<uint8_t>> Images::find(const Digest &digest) const
{
    if (!keeps_) return {};
    const std::string key = to_hex(digest);
    auto bytes = files_.find(key);
    if (!bytes || sha256({reinterpret_cast<const char *>(bytes->data()), bytes->size()}) == digest)
        return bytes;
    fprintf(stderr, "rgpu-worker: the kept image %.16s is damaged, and removed\n", key.c_str());
    files_.remove(key);
    return {};
}

bool Images::would_keep(size_t bytes) const
{
    return keeps_ && bytes >= wire::kSmallestKeptImage &&
           bytes <= std::min<uint64_t>(bound_ / 2, wire::kMaxImageBytes);
}

void Images::keep(std::span<const uint8_t> image)
{
    if (!would_keep(image.size())) return;
    if (!files_.store(to_hex(sha256({reinterpret_cast<const char *>(image.data()), image.size()})),
                      image)) {
        fprintf(stderr,
                "rgpu-worker: cannot keep module images in %s: %m; they are sent anew each time\n",
                directory_.c_str());
        keeps_ = false;
        return;
    }
    if ((since_look_ += image.size()) < look_every(bound_)) return;
    since_look_ = 0;
    files_.trim();
}

}  // namespace rgpu::worker
