// SPDX-License-Identifier: Apache-2.0
// Files by key that all processes of one user share, so that what one has made need not be made
// again.
//
// An entry is one file, made under another name and renamed, so that a reader sees all of it or
// nothing. A hit touches the file's time; when the entries outgrow the bound, the oldest go. What
// the bytes mean, and whether they are whole, is the caller's to check. Nothing here ever fails:
// where the disk does not help, the cache holds nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace rgpu {

class FileCache {
public:
    // In one directory, or spread over folders by the first two digits of the keys.
    enum class Layout { flat, folders };

    // An empty directory name: no cache. `largest`: bytes of one entry.
    FileCache(std::string directory, Layout layout, uint64_t bound, uint64_t largest)
        : directory_(std::move(directory)), layout_(layout), bound_(bound), largest_(largest)
    {}

    // Keys are 8 to 128 lower-case hex digits; another one is never found.
    std::optional<std::vector<uint8_t>> find(std::string_view key) const;
    // Whether it is there now.
    bool store(std::string_view key, std::span<const uint8_t>) const;
    void remove(std::string_view key) const;
    // Of a flat cache, in no order, at most so many.
    std::vector<std::string> keys(size_t most) const;
    // Removes the least recently used entries until the rest is 80% of the bound, if it is over it.
    void trim() const;

private:
    std::string folder(std::string_view key) const;
    std::string path(std::string_view key) const;

    std::string directory_;
    Layout layout_;
    uint64_t bound_, largest_;
};

}  // namespace rgpu
