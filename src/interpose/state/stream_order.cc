// SPDX-License-Identifier: Apache-2.0
#include "interpose/state/stream_order.h"

#include <algorithm>

namespace rgpu::interpose {

void StreamOrder::expect(Stream stream)
{
    if (!pending_.contains(stream)) expected_.insert(stream);
}

void StreamOrder::forget_stream(Stream stream) noexcept
{
    expected_.erase(stream);
    pending_.erase(stream);
    waited_.erase(stream);
}

StreamOrder::Moment StreamOrder::freed(Stream stream)
{
    expect(stream);
    if (auto node = expected_.extract(stream)) pending_.insert(std::move(node));
    return ++now_;
}

void StreamOrder::settled(Stream stream) noexcept
{
    if (auto node = pending_.extract(stream)) expected_.insert(std::move(node));
}

void StreamOrder::add(View &to, const View &more)
{
    for (const auto &[stream, moment] : more) {
        Moment &known = to[stream];
        known = std::max(known, moment);
    }
}

void StreamOrder::prune(View &view) const noexcept
{
    std::erase_if(view, [&](const auto &entry) { return !pending_.contains(entry.first); });
}

StreamOrder::View StreamOrder::behind(Stream stream) const
{
    View view = before(stream);
    prune(view);
    if (pending_.contains(stream)) view[stream] = now_;
    return view;
}

void StreamOrder::prune() noexcept
{
    for (auto &[stream, view] : waited_) prune(view);
    for (auto &[event, seen] : events_) prune(seen.view);
    std::erase_if(waited_, [](const auto &entry) { return entry.second.empty(); });
    std::erase_if(events_, [](const auto &entry) { return entry.second.view.empty(); });
    if (waited_.size() > kMost) waited_.clear();
    if (events_.size() > kMost) events_.clear();
}

void StreamOrder::records(uint64_t event, Stream stream)
{
    forget_event(event);
    View view = behind(stream);
    if (view.empty()) return;
    events_.try_emplace(event, Seen{++records_, std::move(view)});
    if (events_.size() > kMost) prune();
}

StreamOrder::Seen StreamOrder::seen(uint64_t event) const
{
    const auto at = events_.find(event);
    return at == events_.end() ? Seen{} : at->second;
}

bool StreamOrder::is_so(uint64_t event, const Seen &seen) const
{
    const auto at = events_.find(event);
    return seen.record && at != events_.end() && at->second.record == seen.record;
}

void StreamOrder::waits(Stream stream, const View &view)
{
    if (view.empty()) return;
    View mine = before(stream);
    add(mine, view);
    prune(mine);
    mine.erase(stream);
    if (mine.empty())
        waited_.erase(stream);
    else
        waited_[stream].swap(mine);
    if (waited_.size() > kMost) prune();
}

const StreamOrder::View &StreamOrder::before(Stream stream) const
{
    static const View kNone;
    const auto at = waited_.find(stream);
    return at == waited_.end() ? kNone : at->second;
}

}  // namespace rgpu::interpose
