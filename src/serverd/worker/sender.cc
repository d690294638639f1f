// Header and body leave together.
#include "serverd/worker/sender.h"

#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>

#include "serverd/worker/metering.h"

namespace rgpu::worker {

using wire::FrameHeader;
using wire::ServerFrame;

namespace {

FrameHeader header(ServerFrame type, uint32_t sequence, CUresult result, size_t bytes, uint16_t flags)
{
    FrameHeader h;
    h.bytes = static_cast<uint32_t>(bytes);
    h.type = static_cast<uint16_t>(type);
    h.flags = flags;
    h.sequence = sequence;
    h.value = static_cast<uint32_t>(result);
    return h;
}

}  // namespace

void Sender::send(const FrameHeader &h, const void *body)
{
    iovec parts[2] = {{const_cast<FrameHeader *>(&h), sizeof h}, {const_cast<void *>(body), h.bytes}};
    std::lock_guard lock(mutex_);
    // Before the client can have them, and end.
    Metering::here().sent(sizeof h + h.bytes);
    for (size_t left = sizeof h + h.bytes; left;) {
        ssize_t n = to_->send(parts, h.bytes ? 2 : 1, -1);
        if (n <= 0) _exit(0);  // the client is gone: so is what it asked for
        left -= static_cast<size_t>(n);
        for (iovec &part : parts) {
            size_t took = std::min<size_t>(part.iov_len, static_cast<size_t>(n));
            part.iov_base = static_cast<char *>(part.iov_base) + took;
            part.iov_len -= took;
            n -= static_cast<ssize_t>(took);
        }
    }
}

void Sender::use(net::Transport &to)
{
    std::lock_guard lock(mutex_);
    to_ = &to;
}

void Sender::reply(uint32_t sequence, CUresult result, const std::vector<uint8_t> &body)
{
    send(header(ServerFrame::reply, sequence, result, body.size(), wire::kLast), body.data());
}

void Sender::data(uint32_t sequence, CUresult result, const void *bytes, size_t n, bool last)
{
    send(header(ServerFrame::data, sequence, result, n, last ? wire::kLast : 0), bytes);
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

void Sender::snapshot(CUresult result, const std::vector<uint8_t> &body)
{
    send(header(ServerFrame::snapshot, 0, result, body.size(), wire::kLast), body.data());
}

}  // namespace rgpu::worker
