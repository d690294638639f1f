// SPDX-License-Identifier: Apache-2.0
#include "interpose/link/frame_reader.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "interpose/base/stats.h"
#include "interpose/link/lost.h"

namespace rgpu::interpose {

using wire::FrameHeader;
using wire::ServerFrame;

bool FrameReader::begin(FrameHeader &h)
{
    if (!body(&h, sizeof h)) return false;
    if (forecaster_) [[unlikely]]
        forecaster_->frame();
    if (!packing_ || h.type != static_cast<uint16_t>(ServerFrame::part)) return true;
    net::Unpacker &unpacker = packing_->in;
    before_ = {unpacker.came(), unpacker.became()};
    if (auto r = unpacker.open(h); !r) {
        connection_.lose(r.error().text.c_str());
        return false;
    }
    return body(&h, sizeof h);
}

bool FrameReader::body(void *to, size_t bytes)
{
    if (!packing_ || !packing_->in.inside()) return raw(to, bytes);
    auto r = packing_->in.read(to, bytes, [this](void *p, size_t n) { return raw(p, n); });
    if (!r && !r.error().text.empty()) connection_.lose(r.error().text.c_str());
    return r.has_value();
}

bool FrameReader::end()
{
    if (!packing_ || !packing_->in.inside()) return true;
    net::Unpacker &unpacker = packing_->in;
    if (auto r = unpacker.close(); !r) {
        connection_.lose(r.error().text.c_str());
        return false;
    }
    count_unpacked(unpacker.came() - before_.came, unpacker.became() - before_.became);
    return true;
}

bool FrameReader::input_is_there() const
{
    return in_at_ != in_end_ || connection_.transport().wait(net::Transport::kData, 0);
}

void FrameReader::begin_lanes()
{
    connection_.laned()->begin_receiving(in_.get() + in_at_, in_end_ - in_at_);
    in_at_ = in_end_ = 0;
}

// The next bytes of the stream as they come.
bool FrameReader::raw(void *data, size_t bytes)
{
    net::Transport &transport = connection_.transport();
    auto p = static_cast<uint8_t *>(data);
    // Large blocks go straight to where they belong; small ones are read in bulk.
    const bool direct = bytes >= std::min(transport.worth_reading(), kInBytes),
               large = direct && bytes > net::kBehindLarge;
    behind_large_ |= large;
    while (bytes) {
        if (size_t have = in_end_ - in_at_) {
            size_t take = std::min(have, bytes);
            memcpy(p, in_.get() + in_at_, take);
            in_at_ += take, p += take, bytes -= take;
            continue;
        }
        in_at_ = in_end_ = 0;
        if (!connection_.is_ours()) return false;
        const bool behind_large = !direct && std::exchange(behind_large_, false),
                   behind_sent = !direct && std::exchange(behind_sent_, false);
        const size_t room = direct ? bytes : behind_large ? net::kBehindLarge : kInBytes;
        const ssize_t n = wait_for_bytes(direct ? p : in_.get(), room,
                                         large          ? block_spin_
                                         : behind_large ? head_spin_
                                         : behind_sent  ? sent_spin_
                                                        : spin_);
        if (n <= 0) return lose_for(n), false;
        count_received(static_cast<size_t>(n));
        if (direct) {
            p += n, bytes -= static_cast<size_t>(n);
            // A long rest: what came was all that was there.
            if (packing_)
                packing_->received(static_cast<size_t>(n), bytes >= transport.worth_reading());
        } else {
            in_end_ = static_cast<size_t>(n);
        }
    }
    return true;
}

ssize_t FrameReader::wait_for_bytes(void *to, size_t room, Spin &spin)
{
    net::Transport &transport = connection_.transport();
    ssize_t n = -1;
    bool waited = false;
    const auto look = [&] {
        n = transport.receive(to, room, 0);
        return n >= 0 || errno != EAGAIN || (waited = true, false);
    };
    if (!spin.until(look)) n = transport.receive(to, room, -1), waited = true;
    if (forecaster_ && n > 0) [[unlikely]]
        forecaster_->heard(waited);
    return n;
}

size_t FrameReader::came(const FrameHeader &h) const
{
    if (packing_ && packing_->in.inside()) return packing_->in.came() - before_.came;
    return sizeof h + h.bytes;
}

void FrameReader::lose_for(ssize_t received)
{
    if (received == 0 || errno == ECONNRESET)
        connection_.lose(
            ("connection closed by the server: " + why_lost(connection_.server())).c_str());
    else
        connection_.lose(errno);
}

}  // namespace rgpu::interpose
