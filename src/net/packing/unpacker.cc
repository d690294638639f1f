// SPDX-License-Identifier: Apache-2.0
#include "net/packing/unpacker.h"

#include <algorithm>
#include <cstring>

namespace rgpu::net {

using wire::FrameHeader;
using wire::PackMethod;

namespace {

Error damaged(const char *what) { return error(ErrorKind::invalid, "packed bytes: %s", what); }

}  // namespace

void Unpacker::use(unsigned methods)
{
    methods_.store(methods & PackLibrary::here().methods(), std::memory_order_release);
}

Result<void> Unpacker::check(const FrameHeader &h) const
{
    const unsigned methods = methods_.load(std::memory_order_acquire);
    if (!methods) return damaged("nobody has agreed to any");
    if (h.type != type_) return damaged("something else between the parts of a frame");
    if (h.flags & ~wire::kLast) return damaged("flags that no part has");
    if (!h.value || h.value > wire::kPartBytes) return damaged("a part of a length that none has");
    if (h.sequence == static_cast<uint32_t>(PackMethod::stored))
        return h.bytes == h.value ? Result<void>()
                                  : damaged("a part that is no longer or shorter than it says");
    if (h.sequence > static_cast<uint32_t>(PackMethod::zstd) || !(methods & 1u << h.sequence))
        return damaged("a method that nobody has agreed to");
    if (!h.bytes || h.bytes >= h.value)
        return damaged("a part that is no shorter than what it becomes");
    return {};
}

Result<void> Unpacker::open(const FrameHeader &part)
{
    if (auto r = check(part); !r) return r;
    if (!packed_) packed_ = std::make_unique_for_overwrite<uint8_t[]>(wire::kPartBytes);
    if (!unpacked_) unpacked_ = std::make_unique_for_overwrite<uint8_t[]>(wire::kPartBytes);
    part_ = part;
    inside_ = waiting_ = true;
    last_ = false;
    at_ = end_ = 0;
    return {};
}

// part_, to where there is room for all of it.
Result<void> Unpacker::unpack(void *to, const Raw &raw)
{
    waiting_ = false;
    last_ = part_.flags & wire::kLast;
    if (part_.sequence == static_cast<uint32_t>(PackMethod::stored))
        return raw(to, part_.value) ? Result<void>() : Error{ErrorKind::disconnected, ""};
    if (!raw(packed_.get(), part_.bytes)) return Error{ErrorKind::disconnected, ""};
    if (!PackLibrary::here().unpack(static_cast<PackMethod>(part_.sequence), packed_.get(),
                                    part_.bytes, to, part_.value, memory_))
        return damaged("they do not become what was announced");
    came_ += sizeof part_ + part_.bytes, became_ += part_.value;
    return {};
}

Result<void> Unpacker::read(void *to, size_t bytes, const Raw &raw)
{
    auto p = static_cast<uint8_t *>(to);
    while (bytes) {
        if (at_ != end_) {
            const size_t n = std::min(end_ - at_, bytes);
            memcpy(p, unpacked_.get() + at_, n);
            at_ += n, p += n, bytes -= n;
        } else if (waiting_) {
            const bool straight = part_.value <= bytes;
            if (auto r = unpack(straight ? p : unpacked_.get(), raw); !r) return r;
            if (straight)
                p += part_.value, bytes -= part_.value;
            else
                at_ = 0, end_ = part_.value;
        } else {
            if (last_) return damaged("a frame that is longer than its parts");
            if (!raw(&part_, sizeof part_)) return Error{ErrorKind::disconnected, ""};
            if (auto r = check(part_); !r) return r;
            waiting_ = true;
        }
    }
    return {};
}

Result<void> Unpacker::close()
{
    if (waiting_ || at_ != end_ || !last_) return damaged("a frame that is shorter than its parts");
    inside_ = false;
    return {};
}

}  // namespace rgpu::net
