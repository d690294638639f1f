// SPDX-License-Identifier: Apache-2.0
// Header and body leave together.
#include "worker/connection/sender.h"

#include <sched.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>

#include "net/packing/packer.h"
#include "net/transport/laned_transport.h"
#include "share/pages.h"
#include "worker/limits/metering.h"

namespace rgpu::worker {

using wire::FrameHeader;
using wire::ServerFrame;

namespace {

// With as many or more the processor was kept long enough from a thread that has a few bytes to
// send.
constexpr size_t kMany = 128 << 10;

FrameHeader header(ServerFrame type, uint32_t sequence, CUresult result, size_t bytes,
                   uint16_t flags)
{
    FrameHeader h;
    h.bytes = static_cast<uint32_t>(bytes);
    h.type = static_cast<uint16_t>(type);
    h.flags = flags;
    h.sequence = sequence;
    h.value = static_cast<uint32_t>(result);
    return h;
}

void (*to_do_at_end)() = nullptr;

[[noreturn]] void end()
{
    if (to_do_at_end) to_do_at_end();
    _exit(0);
}

}  // namespace

void Sender::before_end(void (*function)()) { to_do_at_end = function; }

void Sender::send(const FrameHeader &h, const void *body)
{
    std::lock_guard lock(mutex_);
    if (!packer_ || !packer_->takes(body, h.bytes)) return send_now(&h, sizeof h, body, h.bytes);
    const FrameHeader head = packer_->head(sizeof h);
    send_now(&head, sizeof head, &h, sizeof h);
    auto p = static_cast<const uint8_t *>(body);
    for (size_t left = h.bytes; left;) {
        const size_t n = std::min<size_t>(left, wire::kPartBytes);
        left -= n;
        const auto part = packer_->part(p, n, !left);
        send_now(part.data(), part.size(), nullptr, 0);
        p += n;
    }
}

void Sender::send_now(const void *first, size_t first_bytes, const void *second,
                      size_t second_bytes)
{
    iovec parts[2] = {{const_cast<void *>(first), first_bytes},
                      {const_cast<void *>(second), second_bytes}};
    // Before the client can have them, and end.
    Metering::here().sent(first_bytes + second_bytes);
    const bool large = second_bytes >= kMany;
    const int64_t begin = large ? share::clock_now() : 0;
    for (size_t left = first_bytes + second_bytes; left;) {
        ssize_t n = to_->send(parts, second_bytes ? 2 : 1, -1);
        if (n <= 0) end();  // the client is gone: so is what it asked for
        left -= static_cast<size_t>(n);
        for (iovec &part : parts) {
            size_t took = std::min<size_t>(part.iov_len, static_cast<size_t>(n));
            part.iov_base = static_cast<char *>(part.iov_base) + took;
            part.iov_len -= took;
            n -= static_cast<ssize_t>(took);
        }
    }
    if (large) Metering::here().moved(share::clock_now() - begin);
}

void Sender::use(net::Transport &to)
{
    std::lock_guard lock(mutex_);
    to_ = &to;
}

void Sender::use(net::Packer &packer)
{
    std::lock_guard lock(mutex_);
    packer_ = &packer;
}

void Sender::begin(uint32_t sequence, net::LanedTransport &lanes, bool always)
{
    const FrameHeader h = header(ServerFrame::reply, sequence, CUDA_SUCCESS, 0, wire::kLast);
    std::lock_guard lock(mutex_);
    send_now(&h, sizeof h, nullptr, 0);
    lanes.begin_sending(always);
}

void Sender::reply(uint32_t sequence, CUresult result, const std::vector<uint8_t> &body)
{
    send(header(ServerFrame::reply, sequence, result, body.size(), wire::kLast), body.data());
    Metering::here().answered();
}

void Sender::data(uint32_t sequence, CUresult result, const void *bytes, size_t n, bool last)
{
    send(header(ServerFrame::data, sequence, result, n, last ? wire::kLast : 0), bytes);
    if (last) Metering::here().answered();
    if (n >= kMany) sched_yield();
}

void Sender::text(std::string_view s)
{
    for (; !s.empty(); s.remove_prefix(std::min<size_t>(s.size(), wire::kMaxServerBytes))) {
        size_t n = std::min<size_t>(s.size(), wire::kMaxServerBytes);
        send(header(ServerFrame::text, 0, CUDA_SUCCESS, n, 0), s.data());
    }
}

void Sender::callback(uint64_t token, CUresult status)
{
    send(header(ServerFrame::callback, 0, status, sizeof token, 0), &token);
}

void Sender::link(uint64_t rate)
{
    send(header(ServerFrame::link, 0, CUDA_SUCCESS, sizeof rate, 0), &rate);
}

void Sender::snapshot(CUresult result, const std::vector<uint8_t> &body)
{
    send(header(ServerFrame::snapshot, 0, result, body.size(), wire::kLast), body.data());
}

}  // namespace rgpu::worker
