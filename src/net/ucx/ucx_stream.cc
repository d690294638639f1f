// SPDX-License-Identifier: Apache-2.0
// What goes through a connection: messages that come, and parts of the stream that go.
#ifdef RGPU_UCX

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "net/ucx/ucx_connection.h"

namespace rgpu::net {

using namespace std::chrono_literals;
using std::chrono::milliseconds;

namespace {

constexpr size_t kEager = 32 << 10;   // most bytes of a message that is not announced
constexpr size_t kMessage = 1 << 20;  // ... of one that is
constexpr uint64_t kWindow =
    64;  // messages that the receiver has not done with: 2 MiB that nobody fetched, at most
constexpr auto kLooks = 1ms;  // how long what was sent may need somebody who is about to leave
constexpr auto kLongestPause = 50ms;

}  // namespace

unsigned UcxConnection::there(unsigned events) const
{
    if (over() || broken_) return events;
    const bool room = under_way_ ? sends_[first_].done : sequence_ < taken_ + kWindow;
    return (events & Transport::kData && arrived_.contains(next_) ? unsigned{Transport::kData}
                                                                  : 0u) |
           (events & Transport::kRoom && room ? unsigned{Transport::kRoom} : 0u);
}

// --- receiving

bool UcxConnection::take_header(const void *from, size_t bytes, Header &h)
{
    if (bytes != sizeof h) return false;
    memcpy(&h, from, sizeof h);
    if (h.word != word_) return false;  // some stranger's
    changed_ = true;
    return true;
}

ucs_status_t UcxConnection::on_hello(void *self, const void *header, size_t bytes, void *, size_t,
                                     const ucp_am_recv_param_t *)
{
    auto &c = *static_cast<UcxConnection *>(self);
    Header h;
    if (c.take_header(header, bytes, h)) c.met_ = true;
    return UCS_OK;
}

ucs_status_t UcxConnection::on_taken(void *self, const void *header, size_t bytes, void *, size_t,
                                     const ucp_am_recv_param_t *)
{
    auto &c = *static_cast<UcxConnection *>(self);
    Header h;
    if (!c.take_header(header, bytes, h)) return UCS_OK;
    if (h.taken > c.sequence_)
        c.broken_ = true;
    else
        c.taken_ = std::max(c.taken_, h.taken);
    return UCS_OK;
}

ucs_status_t UcxConnection::on_stream(void *self, const void *header, size_t bytes, void *data,
                                      size_t length, const ucp_am_recv_param_t *param)
{
    auto &c = *static_cast<UcxConnection *>(self);
    Header h;
    if (!c.take_header(header, bytes, h)) return UCS_OK;
    const bool announced = param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV;
    const bool fits = h.sequence >= c.next_ && h.sequence - c.next_ < kWindow &&
                      h.taken <= c.sequence_ && length && length <= (announced ? kMessage : kEager);
    try {
        if (!fits ||
            !c.arrived_.try_emplace(h.sequence, Message{data, length, announced, nullptr}).second)
            return c.broken_ = true, UCS_OK;
    } catch (const std::bad_alloc &) {  // UCX, which calls this, is C
        return c.broken_ = true, UCS_OK;
    }
    c.taken_ = std::max(c.taken_, h.taken);
    return UCS_INPROGRESS;  // it stays where it is
}

void UcxConnection::on_error(void *self, ucp_ep_h, ucs_status_t)
{
    auto &c = *static_cast<UcxConnection *>(self);
    c.failed_ = c.changed_ = true;
}

// The peer is to know in time that there is room.
void UcxConnection::tell()
{
    auto *told = new Told{*this, {word_, 0, next_}};
    ucp_request_param_t param{};
    param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA |
                         UCP_OP_ATTR_FIELD_FLAGS;
    param.flags = UCP_AM_SEND_FLAG_EAGER;
    param.user_data = told;
    param.cb.send = [](void *request, ucs_status_t, void *data) {
        auto *t = static_cast<Told *>(data);
        t->connection.ucx_.ucp_request_free(request);
        delete t;
    };
    told_ = next_;
    const ucs_status_ptr_t sending =
        ucx_.ucp_am_send_nbx(peer_, kTaken, &told->header, sizeof told->header, nullptr, 0, &param);
    if (UCS_PTR_IS_ERR(sending)) failed_ = true;
    if (UCS_PTR_IS_PTR(sending)) return;
    delete told;
}

void UcxConnection::done_with_first()
{
    auto first = arrived_.begin();
    if (first->second.data) ucx_.ucp_am_data_release(worker_, first->second.data);
    arrived_.erase(first);
    next_++, at_ = 0;
    if (next_ - told_ >= kWindow / 4 && !over()) tell();
}

// What was announced comes now: both sides are there for it. False: the connection failed.
bool UcxConnection::fetch(Lock &lock, Message &m, void *to)
{
    ucp_request_param_t param{};
    param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA |
                         UCP_OP_ATTR_FIELD_MEMORY_TYPE;
    param.memory_type = UCS_MEMORY_TYPE_HOST;
    param.user_data = this;
    param.cb.recv_am = [](void *request, ucs_status_t status, size_t, void *self) {
        auto &c = *static_cast<UcxConnection *>(self);
        c.fetched_ = c.changed_ = true;
        c.fetch_status_ = status;
        c.ucx_.ucp_request_free(request);
    };
    fetched_ = false;
    const ucs_status_ptr_t fetching =
        ucx_.ucp_am_recv_data_nbx(worker_, std::exchange(m.data, nullptr), to, m.bytes, &param);
    if (UCS_PTR_IS_ERR(fetching)) return failed_ = true, false;
    if (!UCS_PTR_IS_PTR(fetching)) return true;
    for (progress(); !fetched_ && !over(); progress())
        if (!fetched_) sleep(lock, -1, -1);
    if (left_) return false;
    // The memory is the caller's again when UCX has let go of it.
    if (!fetched_) close_endpoint();
    for (const auto end = Clock::now() + kFarewell; !fetched_ && Clock::now() < end;) progress();
    if (!fetched_ || fetch_status_ != UCS_OK) return failed_ = true, false;
    return true;
}

// Of the messages that are next, as far as they have come.
size_t UcxConnection::take(Lock &lock, void *to, size_t bytes)
{
    auto *const p = static_cast<uint8_t *>(to);
    size_t taken = 0;
    while (taken < bytes) {
        auto first = arrived_.find(next_);
        if (first == arrived_.end()) break;
        Message &m = first->second;
        if (m.announced && m.data) {
            if (taken) break;  // fetching may take its time
            if (bytes >= m.bytes) {
                if (!fetch(lock, m, p)) break;
                taken = m.bytes;
                done_with_first();
                break;
            }
            m.copy = std::make_unique_for_overwrite<uint8_t[]>(m.bytes);
            if (!fetch(lock, m, m.copy.get())) break;
        }
        const auto *from = m.copy ? m.copy.get() : static_cast<const uint8_t *>(m.data);
        const size_t n = std::min(bytes - taken, m.bytes - at_);
        memcpy(p + taken, from + at_, n);
        taken += n, at_ += n;
        if (at_ == m.bytes) done_with_first();
    }
    return taken;
}

ssize_t UcxConnection::receive(void *to, size_t bytes, int timeout)
{
    const auto end = timeout > 0 ? Clock::now() + milliseconds(timeout) : Deadline::max();
    Lock lock = enter();
    for (visits_++;;) {
        if (!arrived_.contains(next_)) progress();
        if (broken_) return errno = EPROTO, -1;
        if (const size_t n = take(lock, to, bytes)) return static_cast<ssize_t>(n);
        if (left_) return errno = EBADF, -1;
        if (closed_) return 0;
        if (failed_) return errno = ECONNRESET, -1;
        errno = EAGAIN;
        const int left = timeout > 0 ? milliseconds_until(end) : timeout;
        if (!left) return -1;
        if (!ours()) return errno = EBADF, -1;
        sleep(lock, -1, left);
    }
}

// --- sending

// The next message of the parts, behind the bytes that are under way. Small parts go together, in a
// copy.
bool UcxConnection::start_send(const iovec *parts, int count, size_t skip)
{
    int i = 0;
    for (; i < count && skip >= parts[i].iov_len; i++) skip -= parts[i].iov_len;
    if (i == count) return false;
    Send &s = sends_[(first_ + under_way_) % kSends];
    const auto *from = static_cast<const uint8_t *>(parts[i].iov_base) + skip;
    const size_t left = parts[i].iov_len - skip;
    const bool large = left >= kLarge;
    s.bytes = std::min(left, large ? kMessage : kEager);
    if (!large && left < kEager && i + 1 < count && parts[i + 1].iov_len < kLarge) {
        if (!s.gathered) s.gathered = std::make_unique_for_overwrite<uint8_t[]>(kEager);
        memcpy(s.gathered.get(), from, left);
        for (s.bytes = left, i++; i < count && s.bytes < kEager && parts[i].iov_len < kLarge; i++) {
            const size_t n = std::min(parts[i].iov_len, kEager - s.bytes);
            memcpy(s.gathered.get() + s.bytes, parts[i].iov_base, n);
            s.bytes += n;
        }
        from = s.gathered.get();
    }
    s.connection = this;
    s.header = {word_, sequence_++, next_};
    s.done = false, s.status = UCS_OK;
    told_ = next_;
    ucp_request_param_t param{};
    param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA |
                         UCP_OP_ATTR_FIELD_FLAGS | UCP_OP_ATTR_FIELD_MEMORY_TYPE;
    param.memory_type = UCS_MEMORY_TYPE_HOST;
    param.flags = large ? UCP_AM_SEND_FLAG_RNDV : UCP_AM_SEND_FLAG_EAGER;
    param.user_data = &s;
    param.cb.send = [](void *request, ucs_status_t status, void *data) {
        auto &sent = *static_cast<Send *>(data);
        sent.status = status;
        sent.done = sent.connection->changed_ = true;
        sent.connection->ucx_.ucp_request_free(request);
    };
    const ucs_status_ptr_t sending =
        ucx_.ucp_am_send_nbx(peer_, kStream, &s.header, sizeof s.header, from, s.bytes, &param);
    if (UCS_PTR_IS_ERR(sending)) return failed_ = true, false;
    s.done = !UCS_PTR_IS_PTR(sending);
    under_way_++, bytes_under_way_ += s.bytes;
    dirty_ = true;
    return true;
}

// Bytes of the parts that are sent: what UCX reads them from is the caller's again.
size_t UcxConnection::finished()
{
    size_t n = 0;
    for (; under_way_ && sends_[first_].done; first_ = (first_ + 1) % kSends, under_way_--) {
        if (sends_[first_].status != UCS_OK) failed_ = true;
        n += sends_[first_].bytes;
    }
    bytes_under_way_ -= n;
    return n;
}

ssize_t UcxConnection::send(const iovec *parts, int count, int timeout)
{
    const auto end = timeout > 0 ? Clock::now() + milliseconds(timeout) : Deadline::max();
    Lock lock = enter();
    for (visits_++;;) {
        if (left_) return errno = EBADF, -1;
        if (over()) return errno = EPIPE, -1;
        // What did not get done the last time are the first of these bytes: who is told EAGAIN
        // comes again with the same.
        for (size_t skip = bytes_under_way_;
             under_way_ < kSends && sequence_ < taken_ + kWindow && start_send(parts, count, skip);)
            skip = bytes_under_way_;
        progress();
        if (const size_t n = finished(); n && !failed_) {
            if (!under_way_) flush();
            return static_cast<ssize_t>(n);
        }
        errno = EAGAIN;
        const int left = timeout > 0 ? milliseconds_until(end) : timeout;
        if (!left) return -1;
        if (!over() && !there(kRoom)) sleep(lock, -1, left);
    }
}

// UCX may still have some of it. What does not leave at once the finisher sees to, should nobody
// else come.
void UcxConnection::flush()
{
    if (flushing_) return;
    ucp_request_param_t param{};
    param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
    param.user_data = this;
    param.cb.send = [](void *request, ucs_status_t, void *self) {
        auto &c = *static_cast<UcxConnection *>(self);
        c.flushing_ = false;
        c.ucx_.ucp_request_free(request);
    };
    dirty_ = false;
    flushing_ = UCS_PTR_IS_PTR(ucx_.ucp_worker_flush_nbx(worker_, &param));
    if (flushing_) wanted_.notify_one();
}

// The thread that goes on with what was sent when all others have left.
void UcxConnection::finish_alone()
{
    Lock lock = enter();
    for (auto pause = milliseconds(kLooks); !stop_;) {
        if (over() || (!flushing_ && !dirty_)) {
            wanted_.wait(lock, [this] { return stop_ || (!over() && (flushing_ || dirty_)); });
            pause = kLooks;
            continue;
        }
        const uint64_t visits = visits_;
        wanted_.wait_for(lock, pause, [this] { return stop_; });
        pause = std::min(pause * 2, milliseconds(kLongestPause));
        if (stop_ || left_ || over() || visits != visits_ || sleepers_ || !ours()) continue;
        progress();
        if (!flushing_ && dirty_) flush();
        if (flushing_) sleep(lock, -1, static_cast<int>(kLongestPause.count()));
    }
}

}  // namespace rgpu::net

#endif
