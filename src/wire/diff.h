// SPDX-License-Identifier: Apache-2.0
// What changed in a stretch of memory since both sides last had the same, byte by byte.
//
// Memory that the program and its kernels share is there twice, and both may write: bytes that one
// side did not change must not overwrite what the other side did. Each side keeps a twin, the last
// content that both agreed on; a diff names exactly the bytes that differ from it. Layout:
// doc/protocol.md, "Mirrored memory".
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace rgpu::wire {

inline constexpr size_t kDiffUnit = 64;

// Appends to `out` what differs between `now` and `twin`, from `from` on, and makes the twin equal
// to what it read. `now` may be written at the same time: each byte is read once. Stops at a unit's
// border when `out` has `limit` bytes or more; returns how far it came (`bytes` at the end). `from`
// is a multiple of kDiffUnit.
size_t make_diff(const uint8_t *now, uint8_t *twin, size_t bytes, size_t from, size_t limit,
                 std::vector<uint8_t> &out);

// Calls write(offset, data, n) for each run of changed bytes, in order. False when the diff is
// damaged or names bytes outside [0, bytes): what came before was written.
template <class Write>
bool apply_diff(const uint8_t *diff, size_t diff_bytes, size_t bytes, Write &&write);

// One entry of a diff: units that are skipped, then units that follow.
struct DiffEntry {
    uint32_t skip = 0;   // units without a change
    uint32_t count = 0;  // units in this entry; kDiffWhole: every byte of them changed
};
inline constexpr uint32_t kDiffWhole = 1u << 31;

namespace detail {

// The runs of set bits of `mask`, with the bytes that stand for them at `data`.
template <class Write>
const uint8_t *apply_mask(uint64_t mask, size_t offset, const uint8_t *data, Write &&write)
{
    while (mask) {
        const int first = __builtin_ctzll(mask);
        const uint64_t rest = ~(mask >> first);
        const int n = rest ? __builtin_ctzll(rest) : 64;
        write(offset + static_cast<size_t>(first), data, static_cast<size_t>(n));
        data += n;
        if (first + n == 64) break;
        mask &= ~uint64_t{0} << (first + n);
    }
    return data;
}

template <class T> bool take(const uint8_t *&p, const uint8_t *end, T &v)
{
    if (static_cast<size_t>(end - p) < sizeof v) return false;
    __builtin_memcpy(&v, p, sizeof v);
    p += sizeof v;
    return true;
}

}  // namespace detail

template <class Write>
bool apply_diff(const uint8_t *p, size_t diff_bytes, size_t bytes, Write &&write)
{
    const uint8_t *const end = p + diff_bytes;
    const uint64_t units = (uint64_t{bytes} + kDiffUnit - 1) / kDiffUnit;
    uint64_t unit = 0;
    while (p != end) {
        DiffEntry e;
        if (!detail::take(p, end, e)) return false;
        const uint64_t count = e.count & ~kDiffWhole;
        if (!count || e.skip > units - unit || count > units - unit - e.skip) return false;
        unit += e.skip;
        if (e.count & kDiffWhole) {
            const size_t n = static_cast<size_t>(count) * kDiffUnit,
                         at = static_cast<size_t>(unit) * kDiffUnit;
            if (n > bytes - at || n > static_cast<size_t>(end - p)) return false;
            write(at, p, n);
            p += n;
            unit += count;
            continue;
        }
        for (uint64_t i = 0; i < count; i++, unit++) {
            uint64_t mask;
            const size_t at = static_cast<size_t>(unit) * kDiffUnit, valid = bytes - at;
            if (!detail::take(p, end, mask)) return false;
            if (valid < kDiffUnit && mask >> valid) return false;
            if (static_cast<size_t>(__builtin_popcountll(mask)) > static_cast<size_t>(end - p))
                return false;
            p = detail::apply_mask(mask, at, p, write);
        }
    }
    return true;
}

}  // namespace rgpu::wire
