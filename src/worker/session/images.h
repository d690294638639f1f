// SPDX-License-Identifier: Apache-2.0
// Module images that this user's programs have sent, kept on disk for later ones: who names one by
// its digest need not send it again. The directory is one lease owner's (rgpud makes it): nobody
// gets another's image by guessing a digest, and what is found is what its digest says or is not
// found.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "util/file_cache.h"
#include "util/sha256.h"

namespace rgpu::worker {

class Images {
public:
    // In this directory, so many bytes of them. Without either nothing is kept.
    Images(const std::string &directory, uint64_t bound);

    bool keeps() const { return keeps_; }
    // The tags (wire/image.h) of what is there.
    std::vector<uint64_t> tags() const;
    std::optional<std::vector<uint8_t>> find(const Digest &) const;
    // Keeps it, where it is neither too small nor too large. What cannot be written turns keeping
    // off.
    void keep(std::span<const uint8_t> image);
    bool would_keep(size_t bytes) const;

private:
    std::string directory_;
    uint64_t bound_;
    FileCache files_;
    bool keeps_;
    uint64_t since_look_;
};

}  // namespace rgpu::worker
