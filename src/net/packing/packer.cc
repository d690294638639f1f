// SPDX-License-Identifier: Apache-2.0
#include "net/packing/packer.h"

#include <algorithm>
#include <cstring>

namespace rgpu::net {

namespace {

using wire::FrameHeader;
using wire::PackMethod;
using Clock = std::chrono::steady_clock;

// zstd packs better, at half the speed of lz4: below this link's rate it comes first, above it
// where lz4 does nothing.
constexpr uint64_t kZstdBelow = 80'000'000;  // bytes a second
// Bytes have shrunk with at least a tenth less.
bool is_less(size_t packed, size_t bytes) { return packed && packed <= bytes - bytes / 10; }
constexpr size_t kSample = 8 << 10, kSamples = 2;
constexpr size_t kLeastPatience = 1 << 20, kMostPatience = 8 << 20;
// Packing must be faster than the link, by a tenth.
constexpr double kFaster = 1.1;
constexpr size_t kTimed = 8 << 20,
                 kSlowPacker =
                     64
                     << 20;  // bytes after which its speed is judged, and that it is given up for
constexpr size_t kProbeEvery = 64 << 20, kProbe = 4 << 20;

}  // namespace

void Packer::use(unsigned methods, bool always)
{
    always_.store(always, std::memory_order_relaxed);
    methods_.store(methods & PackLibrary::here().methods(), std::memory_order_release);
}

void Packer::leave(size_t bytes) { leave_ = std::max(leave_, bytes); }

bool Packer::worth_it(const void *payload, size_t bytes)
{
    const bool always = always_.load(std::memory_order_relaxed);
    const uint64_t rate = rate_.load(std::memory_order_relaxed);
    if (!always && !rate) return false;
    if (leave_) {
        leave_ -= std::min(leave_, bytes);
        return false;
    }
    if (!part_)
        part_ = std::make_unique_for_overwrite<uint8_t[]>(sizeof(FrameHeader) + wire::kPartBytes);
    if (shrank_) return true;
    const bool zstd_first = rate < kZstdBelow;
    for (PackMethod m : {zstd_first ? PackMethod::zstd : PackMethod::lz4,
                         zstd_first ? PackMethod::lz4 : PackMethod::zstd})
        if (methods_.load(std::memory_order_relaxed) & wire::bit(m) &&
            (method_ = m, shrinks(payload, bytes)))
            return true;
    patience_ = std::clamp(patience_ * 2, kLeastPatience, kMostPatience);
    leave(patience_);
    return false;
}

size_t Packer::pack(const void *from, size_t bytes, void *to, size_t room)
{
    return PackLibrary::here().pack(method_, from, bytes, to, room, memory_);
}

// From the first half's middle and the second's.
bool Packer::shrinks(const void *payload, size_t bytes)
{
    size_t packed = 0;
    for (size_t i = 0; i < kSamples; i++) {
        const size_t at = (bytes - kSample) * (2 * i + 1) / (2 * kSamples);
        const size_t n =
            pack(static_cast<const uint8_t *>(payload) + at, kSample, part_.get(), kSample);
        packed += n ? n : kSample;
    }
    return is_less(packed, kSamples * kSample);
}

FrameHeader Packer::head(size_t bytes) const
{
    FrameHeader h;
    h.bytes = h.value = static_cast<uint32_t>(bytes);
    h.type = type_;
    h.sequence = static_cast<uint32_t>(PackMethod::stored);
    return h;
}

std::span<const uint8_t> Packer::part(const void *from, size_t bytes, bool last)
{
    FrameHeader h = head(bytes);
    uint8_t *const to = part_.get() + sizeof h;
    const auto begin = Clock::now();
    const size_t n = pack(from, bytes, to, bytes - bytes / 10);
    timed_ += Clock::now() - begin;
    timed_bytes_ += bytes;
    if (n && n < bytes)
        h.bytes = static_cast<uint32_t>(n), h.sequence = static_cast<uint32_t>(method_);
    else
        memcpy(to, from, bytes);
    if (last) h.flags = wire::kLast;
    memcpy(part_.get(), &h, sizeof h);
    const size_t made = sizeof h + h.bytes;
    payload_taken_ += bytes, payload_made_ += made;
    if (last) ended();
    return {part_.get(), made};
}

void Packer::ended()
{
    taken_ += payload_taken_, made_ += payload_made_;
    since_probe_ += payload_made_;
    shrank_ = is_less(payload_made_, payload_taken_);
    if (shrank_) patience_ = 0;
    payload_taken_ = payload_made_ = 0;
    if (always_.load(std::memory_order_relaxed)) return;
    if (since_probe_ >= kProbeEvery) since_probe_ = 0, shrank_ = false, leave(kProbe);
    if (timed_bytes_ < kTimed) return;
    const double speed = static_cast<double>(timed_bytes_) /
                         std::chrono::duration<double>(timed_).count();
    timed_bytes_ = 0, timed_ = {};
    if (speed < kFaster * static_cast<double>(rate_.load(std::memory_order_relaxed)))
        shrank_ = false, leave(kSlowPacker);
}

}  // namespace rgpu::net
