#include "softgpu/driver/base/advice.h"

namespace rgpu::softgpu::driver {

Advices &advices()
{
    static auto *a = new Advices;
    return *a;
}

// Under the lock: no piece reaches over `at`.
void Advices::split(uint64_t at)
{
    auto next = pieces_.upper_bound(at);
    if (next == pieces_.begin()) return;
    auto &[begin, piece] = *std::prev(next);
    if (begin == at || piece.end <= at) return;
    pieces_.emplace_hint(next, at, piece);
    piece.end = at;
}

void Advices::change(uint64_t address, uint64_t bytes, const std::function<void(Advice &)> &apply)
{
    const uint64_t end = address + bytes;
    std::lock_guard lock(mutex_);
    split(address);
    split(end);
    for (uint64_t at = address; at < end;) {
        auto it = pieces_.lower_bound(at);
        if (it == pieces_.end() || it->first > at) {
            const uint64_t until = it == pieces_.end() || it->first > end ? end : it->first;
            it = pieces_.emplace_hint(it, at, Piece{until, {}});
        }
        apply(it->second.advice);
        at = it->second.end;
    }
}

void Advices::look(uint64_t address, uint64_t bytes,
                   const std::function<void(const Advice &)> &see) const
{
    static const Advice nothing;
    const uint64_t end = address + bytes;
    std::lock_guard lock(mutex_);
    auto it = pieces_.upper_bound(address);
    if (it != pieces_.begin() && std::prev(it)->second.end > address) --it;
    for (uint64_t at = address; at < end; ++it) {
        if (it == pieces_.end() || it->first > at) see(nothing);
        if (it == pieces_.end() || it->first >= end) return;
        see(it->second.advice);
        at = it->second.end;
    }
}

void Advices::forget(uint64_t address, uint64_t bytes)
{
    std::lock_guard lock(mutex_);
    split(address);
    split(address + bytes);
    pieces_.erase(pieces_.lower_bound(address), pieces_.lower_bound(address + bytes));
}

}  // namespace rgpu::softgpu::driver
