// SPDX-License-Identifier: Apache-2.0
#include "interpose/link/announcements.h"

#include <algorithm>
#include <cstdio>
#include <vector>

namespace rgpu::interpose {

using wire::FrameHeader;
using wire::ServerFrame;

bool Announcements::take(const FrameHeader &h, FrameReader &reader)
{
    if (h.bytes <= wire::kMaxServerBytes) switch (static_cast<ServerFrame>(h.type)) {
        case ServerFrame::text: return take_text(h, reader);
        case ServerFrame::callback: return take_callback(h, reader);
        case ServerFrame::link: return take_link(h, reader);
        default: break;
        }
    connection_.lose("the server sent something that is no answer");
    return false;
}

// One that nobody expected must not make the count huge, which would keep the pump awake for ever.
void Announcements::expect_fewer(size_t fewer)
{
    size_t n = expected_;
    while (!expected_.compare_exchange_weak(n, n - std::min(n, fewer))) {}
}

bool Announcements::take_text(const FrameHeader &h, FrameReader &reader)
{
    std::vector<char> text(h.bytes);
    if (!reader.body(text.data(), text.size())) return false;
    fwrite(text.data(), 1, text.size(), stdout);
    fflush(stdout);
    return true;
}

bool Announcements::take_callback(const FrameHeader &h, FrameReader &reader)
{
    uint64_t token;
    if (h.bytes != sizeof token) {
        connection_.lose("the server sent something that is no callback");
        return false;
    }
    if (!reader.body(&token, sizeof token)) return false;
    heard_.fetch_add(1, std::memory_order_release);
    expect_fewer(1);
    if (forecaster_) [[unlikely]]
        forecaster_->pushed();
    functions_.due(token, h.value);
    return true;
}

bool Announcements::take_link(const FrameHeader &h, FrameReader &reader)
{
    uint64_t rate;
    if (!packing_ || h.bytes != sizeof rate) {
        connection_.lose("the server sent something that is no word about the link");
        return false;
    }
    if (!reader.body(&rate, sizeof rate)) return false;
    packing_->link_is(rate);
    return true;
}

}  // namespace rgpu::interpose
