// SPDX-License-Identifier: Apache-2.0
#include "wire/diff.h"

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include <cstring>

#include "wire/codec.h"

namespace rgpu::wire {

namespace {

// The program's memory is read while its other threads may write there, as kernels read it on a
// GPU. What was read, each byte once, is what both sides go on with; what comes later differs from
// it, and is found the next time.
#define READS_WHAT_OTHERS_WRITE [[gnu::no_sanitize("thread")]]

// Which of the first n bytes differ; `copy` gets what was read.
READS_WHAT_OTHERS_WRITE uint64_t compare_part(const uint8_t *now, const uint8_t *twin, size_t n,
                                              uint8_t *copy)
{
    uint64_t mask = 0;
    for (size_t i = 0; i < n; i++) {
        copy[i] = now[i];
        if (copy[i] != twin[i]) mask |= uint64_t{1} << i;
    }
    return mask;
}

// The same for a whole unit.
READS_WHAT_OTHERS_WRITE uint64_t compare(const uint8_t *now, const uint8_t *twin, uint8_t *copy)
{
#ifdef __SSE2__
    uint64_t mask = 0;
    for (int i = 0; i < 4; i++) {
        const __m128i a = _mm_loadu_si128(reinterpret_cast<const __m128i *>(now) + i);
        const __m128i b = _mm_loadu_si128(reinterpret_cast<const __m128i *>(twin) + i);
        _mm_storeu_si128(reinterpret_cast<__m128i *>(copy) + i, a);
        const auto equal = static_cast<unsigned>(_mm_movemask_epi8(_mm_cmpeq_epi8(a, b)));
        mask |= uint64_t{~equal & 0xffff} << (16 * i);
    }
    return mask;
#else
    return compare_part(now, twin, kDiffUnit, copy);
#endif
}

// The entry that is being written: its place in `out`, and what it says.
class Entries {
public:
    Entries(std::vector<uint8_t> &out, size_t skipped)
        : out_(out), skipped_(static_cast<uint32_t>(skipped))
    {}

    void skip() { skipped_++; }
    void unit(uint64_t mask, const uint8_t *data)
    {
        const bool whole = mask == ~uint64_t{0};
        if (!open_ || skipped_ || whole != (now_.count & kDiffWhole) >> 31) open(whole);
        now_.count++;
        Writer w(out_);
        if (whole) {
            w.bytes(data, kDiffUnit);
        } else {
            w.value(mask);
            detail::apply_mask(mask, 0, data, [&](size_t at, const uint8_t *, size_t n) {
                w.bytes(data + at, n);
            });
        }
    }
    void close()
    {
        if (open_) memcpy(&out_[at_], &now_, sizeof now_);
        open_ = false;
    }

private:
    void open(bool whole)
    {
        close();
        now_ = {skipped_, whole ? kDiffWhole : 0};
        skipped_ = 0;
        at_ = out_.size();
        Writer(out_).value(now_);
        open_ = true;
    }

    std::vector<uint8_t> &out_;
    DiffEntry now_;
    size_t at_ = 0;
    uint32_t skipped_;
    bool open_ = false;
};

}  // namespace

size_t make_diff(const uint8_t *now, uint8_t *twin, size_t bytes, size_t from, size_t limit,
                 std::vector<uint8_t> &out)
{
    Entries entries(out, from / kDiffUnit);
    uint8_t copy[kDiffUnit];
    size_t at = from;
    for (; at < bytes && out.size() < limit; at += kDiffUnit) {
        const bool part = bytes - at < kDiffUnit;
        const uint64_t mask = part ? compare_part(now + at, twin + at, bytes - at, copy)
                                   : compare(now + at, twin + at, copy);
        if (!mask) {
            entries.skip();
            continue;
        }
        entries.unit(mask, copy);
        memcpy(twin + at, copy, part ? bytes - at : kDiffUnit);
    }
    entries.close();
    return at < bytes ? at : bytes;
}

}  // namespace rgpu::wire
