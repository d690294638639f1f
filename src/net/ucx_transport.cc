#include "net/ucx_transport.h"

#ifdef RGPU_UCX

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <climits>
#include <condition_variable>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "net/own_socket.h"
#include "net/ucx.h"

namespace rgpu::net {

namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;

enum Id : unsigned { kHello = 1, kStream = 2, kTaken = 3 };  // of active messages

// In front of each.
struct Header {
    uint64_t word = 0;
    uint64_t sequence = 0;  // kStream: its number, from 1
    uint64_t taken = 0;     // the number of the first message that its sender has not done with yet
};

constexpr size_t kEager = 32 << 10;   // most bytes of a message that is not announced
constexpr size_t kMessage = 1 << 20;  // ... of one that is
constexpr uint64_t kWindow = 64;      // messages that the receiver has not done with: 2 MiB that nobody fetched, at most
constexpr size_t kSends = 4;          // under way at once
constexpr auto kLooks = 1ms;          // how long what was sent may need somebody who is about to leave
constexpr auto kLongestPause = 50ms;
constexpr auto kFarewell = 1s;        // for requests to end once their endpoint has

bool readable(int fd)
{
    pollfd look{fd, POLLIN | POLLRDHUP, 0};
    return poll(&look, 1, 0) > 0;
}

// For poll(): rounded up.
int milliseconds_until(Deadline deadline)
{
    return static_cast<int>(std::clamp<int64_t>(std::chrono::ceil<milliseconds>(deadline - Clock::now()).count(), 0, INT_MAX));
}

class Connection final : public UcxTransport {
public:
    explicit Connection(const Ucx &ucx) : ucx_(ucx) {}
    ~Connection() override;
    Result<void> start();

    const std::string &address() const override { return address_; }
    Result<void> connect(const std::string &their_address, uint64_t word) override;
    bool greet(int tcp, Deadline) override;
    void answer(int tcp) override;
    void keep(Fd tcp) override { tcp_.emplace(std::move(tcp)); }

    const char *name() const override { return "ucx"; }
    ssize_t receive(void *to, size_t bytes, int timeout) override;
    ssize_t send(const iovec *parts, int count, int timeout) override;
    unsigned wait(unsigned events, int timeout) override;
    size_t worth_reading() const override { return kLarge; }
    bool ours() const override { return tcp_ && tcp_->ours(); }
    void shutdown() override;
    void leave_to_parent() override;

private:
    using Lock = std::unique_lock<std::mutex>;

    struct Message {
        void *data = nullptr;  // UCX's; null: fetched
        size_t bytes = 0;
        bool announced = false;
        std::unique_ptr<uint8_t[]> copy;
    };
    struct Send {
        Connection *connection = nullptr;
        Header header;
        std::unique_ptr<uint8_t[]> gathered;
        size_t bytes = 0;
        bool done = false;
        ucs_status_t status = UCS_OK;
    };
    struct Told {
        const Connection &connection;
        Header header;
    };

    Lock enter() const;
    Error fails(const char *what, ucs_status_t) const;
    bool over() const { return closed_ || failed_; }
    unsigned there(unsigned events) const;
    void say_hello();
    void progress();
    void sleep(Lock &, int tcp, int timeout);
    void look_for_the_rest();
    void close_endpoint();

    bool take_header(const void *header, size_t bytes, Header &);
    size_t take(Lock &, void *to, size_t bytes);
    bool fetch(Lock &, Message &, void *to);
    void done_with_first();
    void tell();

    bool start_send(const iovec *parts, int count, size_t skip);
    size_t finished();
    void flush();
    void finish_alone();

    static ucs_status_t on_hello(void *, const void *, size_t, void *, size_t, const ucp_am_recv_param_t *);
    static ucs_status_t on_stream(void *, const void *, size_t, void *, size_t, const ucp_am_recv_param_t *);
    static ucs_status_t on_taken(void *, const void *, size_t, void *, size_t, const ucp_am_recv_param_t *);
    static void on_error(void *, ucp_ep_h, ucs_status_t);

    const Ucx &ucx_;
    ucp_context_h context_ = nullptr;
    ucp_worker_h worker_ = nullptr;
    ucp_ep_h peer_ = nullptr;
    int events_ = -1;  // UCX's
    Fd bell_;          // rings when a thread has taken what others may sleep for
    std::string address_;
    std::optional<OwnSocket> tcp_;

    // Guards UCX, and all below.
    mutable std::mutex mutex_;
    uint64_t word_ = 0;
    Header hello_;
    bool met_ = false, changed_ = false, broken_ = false;
    std::atomic<bool> closed_{false}, failed_{false}, left_{false};
    int sleepers_ = 0;
    uint64_t visits_ = 0;

    std::map<uint64_t, Message> arrived_;
    uint64_t next_ = 1, told_ = 1;  // the first message that is not taken, and as the peer knows it
    size_t at_ = 0;                 // of its bytes
    bool fetched_ = false;
    ucs_status_t fetch_status_ = UCS_OK;

    std::array<Send, kSends> sends_;
    size_t first_ = 0, under_way_ = 0, bytes_under_way_ = 0;
    uint64_t sequence_ = 1, taken_ = 1;  // of the next message; and what the peer has not taken

    bool dirty_ = false, flushing_ = false;  // something was sent since the last flush; a flush is under way
    std::condition_variable wanted_;
    std::thread finisher_;
    bool stop_ = false;
};

// A thread that UCX's libc did not make, at its first visit.
Connection::Lock Connection::enter() const
{
    static thread_local bool known = false;
    if (!known) ucx_.own_locale(LC_GLOBAL_LOCALE), known = true;
    return Lock(mutex_);
}

Error Connection::fails(const char *what, ucs_status_t status) const
{
    return error(ErrorKind::unsupported, "UCX %s (%s); RGPU_UCX_TLS and RGPU_UCX_NET_DEVICES say what it uses, RGPU_UCX_LOG_LEVEL=info what it finds", what,
                 ucx_.ucs_status_string(status));
}

Result<void> Connection::start()
{
    const Lock lock = enter();
    ucp_config_t *config = nullptr;
    ucs_status_t status = ucx_.ucp_config_read(nullptr, nullptr, &config);
    if (status != UCS_OK) return fails("cannot read its settings", status);
    ucp_params_t params{};
    params.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_ESTIMATED_NUM_EPS;
    params.features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP;
    params.estimated_num_eps = 1;
    status = ucx_.ucp_init_version(UCP_API_MAJOR, UCP_API_MINOR, &params, config, &context_);
    ucx_.ucp_config_release(config);
    if (status != UCS_OK) return fails("finds no network that it can use", status);
    ucp_worker_params_t worker{};
    worker.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
    worker.thread_mode = UCS_THREAD_MODE_SERIALIZED;
    status = ucx_.ucp_worker_create(context_, &worker, &worker_);
    if (status != UCS_OK) return fails("cannot use what it finds", status);
    ucx_.leave_standing();

    const struct {
        Id id;
        ucp_am_recv_callback_t call;
    } handlers[] = {{kHello, on_hello}, {kStream, on_stream}, {kTaken, on_taken}};
    for (const auto &handler : handlers) {
        ucp_am_handler_param_t am{};
        am.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG | UCP_AM_HANDLER_PARAM_FIELD_FLAGS;
        am.id = handler.id, am.cb = handler.call, am.arg = this;
        am.flags = handler.id == kStream ? UCP_AM_FLAG_WHOLE_MSG | UCP_AM_FLAG_PERSISTENT_DATA : UCP_AM_FLAG_WHOLE_MSG;
        status = ucx_.ucp_worker_set_am_recv_handler(worker_, &am);
        if (status != UCS_OK) return fails("takes no active messages", status);
    }
    if (status = ucx_.ucp_worker_get_efd(worker_, &events_); status != UCS_OK) return fails("cannot wake who waits", status);
    fcntl(events_, F_SETFD, FD_CLOEXEC);
    bell_ = Fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!bell_) return error(ErrorKind::exhausted, "no event descriptor: %s", strerror(errno));
    ucp_address_t *address = nullptr;
    size_t bytes = 0;
    if (status = ucx_.ucp_worker_get_address(worker_, &address, &bytes); status != UCS_OK) return fails("has no address", status);
    address_.assign(reinterpret_cast<const char *>(address), bytes);
    ucx_.ucp_worker_release_address(worker_, address);
    if (bytes > kAddressBytes) return error(ErrorKind::unsupported, "UCX uses too many networks at once: name one with RGPU_UCX_NET_DEVICES");
    return {};
}

Result<void> Connection::connect(const std::string &their_address, uint64_t word)
{
    const Lock lock = enter();
    word_ = word;
    ucp_ep_params_t params{};
    params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER;
    params.address = reinterpret_cast<const ucp_address_t *>(their_address.data());
    params.err_handler.cb = on_error;
    params.err_handler.arg = this;
    // UCX's shared memory does not tell that the peer has gone, and is left out where that is asked for: the TCP connection does.
    ucs_status_t status = UCS_ERR_UNREACHABLE;
    for (ucp_err_handling_mode_t mode : {UCP_ERR_HANDLING_MODE_PEER, UCP_ERR_HANDLING_MODE_NONE}) {
        params.err_mode = mode;
        if ((status = ucx_.ucp_ep_create(worker_, &params, &peer_)) == UCS_OK) break;
    }
    if (status != UCS_OK) return peer_ = nullptr, fails("has no network to the other side", status);
    finisher_ = std::thread([this] { finish_alone(); });
    return {};
}

bool Connection::greet(int tcp, Deadline deadline)
{
    Lock lock = enter();
    say_hello();
    for (progress(); !met_ && !over() && !readable(tcp); sleep(lock, tcp, milliseconds_until(deadline)))
        if (Clock::now() >= deadline) break;
    return met_;
}

void Connection::answer(int tcp)
{
    Lock lock = enter();
    for (bool answered = false; !over() && !readable(tcp); sleep(lock, tcp, -1)) {
        progress();
        if (met_ && !answered) answered = true, say_hello(), progress();
    }
}

// --- with the lock held

void Connection::say_hello()
{
    hello_.word = word_;
    ucp_request_param_t param{};
    param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS;
    param.flags = UCP_AM_SEND_FLAG_EAGER;
    param.user_data = this;
    param.cb.send = [](void *request, ucs_status_t, void *self) { static_cast<Connection *>(self)->ucx_.ucp_request_free(request); };
    if (UCS_PTR_IS_ERR(ucx_.ucp_am_send_nbx(peer_, kHello, &hello_, sizeof hello_, nullptr, 0, &param))) failed_ = true;
}

unsigned Connection::there(unsigned events) const
{
    if (over() || broken_) return events;
    const bool room = under_way_ ? sends_[first_].done : sequence_ < taken_ + kWindow;
    return (events & Transport::kData && arrived_.contains(next_) ? unsigned{Transport::kData} : 0u) |
           (events & Transport::kRoom && room ? unsigned{Transport::kRoom} : 0u);
}

void Connection::progress()
{
    for (int rounds = 0; rounds < 64 && ucx_.ucp_worker_progress(worker_); rounds++) {
    }
    if (!std::exchange(changed_, false) || !sleepers_) return;
    const uint64_t one = 1;
    (void)!write(bell_.get(), &one, sizeof one);
}

// Until something may have happened, or the time is over. `tcp`: a socket to look at for input, too, or -1 for the end of the connection's own.
void Connection::sleep(Lock &lock, int tcp, int timeout)
{
    bool ended = false;
    if (const ucs_status_t armed = ucx_.ucp_worker_arm(worker_); armed == UCS_OK) {
        uint64_t rung;
        if (!sleepers_++) (void)!read(bell_.get(), &rung, sizeof rung);
        pollfd looks[] = {{events_, POLLIN, 0},
                          {bell_.get(), POLLIN, 0},
                          {tcp >= 0 ? tcp : tcp_ ? tcp_->get() : -1, static_cast<short>(tcp >= 0 ? POLLIN | POLLRDHUP : POLLRDHUP), 0}};
        lock.unlock();
        ended = poll(looks, 3, timeout) > 0 && looks[2].revents & (POLLRDHUP | POLLHUP | POLLERR | POLLNVAL);
        lock.lock();
        --sleepers_;
    } else if (armed != UCS_ERR_BUSY) {
        failed_ = true;
    }
    if (left_) return;
    progress();
    if (ended && !closed_) look_for_the_rest();
}

// What the peer sent last comes before its end.
void Connection::look_for_the_rest()
{
    while (ucx_.ucp_worker_progress(worker_)) {
    }
    progress();
    closed_ = true;
}

void Connection::close_endpoint()
{
    if (!peer_) return;
    ucp_request_param_t param{};
    param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
    param.flags = UCP_EP_CLOSE_FLAG_FORCE;
    ucs_status_ptr_t closing = ucx_.ucp_ep_close_nbx(std::exchange(peer_, nullptr), &param);
    const auto end = Clock::now() + kFarewell;
    if (!UCS_PTR_IS_PTR(closing)) return;
    while (ucx_.ucp_request_check_status(closing) == UCS_INPROGRESS && Clock::now() < end) ucx_.ucp_worker_progress(worker_);
    ucx_.ucp_request_free(closing);
}

// --- receiving

bool Connection::take_header(const void *from, size_t bytes, Header &h)
{
    if (bytes != sizeof h) return false;
    memcpy(&h, from, sizeof h);
    if (h.word != word_) return false;  // some stranger's
    changed_ = true;
    return true;
}

ucs_status_t Connection::on_hello(void *self, const void *header, size_t bytes, void *, size_t, const ucp_am_recv_param_t *)
{
    auto &c = *static_cast<Connection *>(self);
    Header h;
    if (c.take_header(header, bytes, h)) c.met_ = true;
    return UCS_OK;
}

ucs_status_t Connection::on_taken(void *self, const void *header, size_t bytes, void *, size_t, const ucp_am_recv_param_t *)
{
    auto &c = *static_cast<Connection *>(self);
    Header h;
    if (!c.take_header(header, bytes, h)) return UCS_OK;
    if (h.taken > c.sequence_) c.broken_ = true;
    else c.taken_ = std::max(c.taken_, h.taken);
    return UCS_OK;
}

ucs_status_t Connection::on_stream(void *self, const void *header, size_t bytes, void *data, size_t length, const ucp_am_recv_param_t *param)
{
    auto &c = *static_cast<Connection *>(self);
    Header h;
    if (!c.take_header(header, bytes, h)) return UCS_OK;
    const bool announced = param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV;
    const bool fits = h.sequence >= c.next_ && h.sequence - c.next_ < kWindow && h.taken <= c.sequence_ && length && length <= (announced ? kMessage : kEager);
    if (!fits || !c.arrived_.try_emplace(h.sequence, Message{data, length, announced, nullptr}).second) return c.broken_ = true, UCS_OK;
    c.taken_ = std::max(c.taken_, h.taken);
    return UCS_INPROGRESS;  // it stays where it is
}

void Connection::on_error(void *self, ucp_ep_h, ucs_status_t)
{
    auto &c = *static_cast<Connection *>(self);
    c.failed_ = c.changed_ = true;
}

// The peer is to know in time that there is room.
void Connection::tell()
{
    auto *told = new Told{*this, {word_, 0, next_}};
    ucp_request_param_t param{};
    param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS;
    param.flags = UCP_AM_SEND_FLAG_EAGER;
    param.user_data = told;
    param.cb.send = [](void *request, ucs_status_t, void *data) {
        auto *t = static_cast<Told *>(data);
        t->connection.ucx_.ucp_request_free(request);
        delete t;
    };
    told_ = next_;
    const ucs_status_ptr_t sending = ucx_.ucp_am_send_nbx(peer_, kTaken, &told->header, sizeof told->header, nullptr, 0, &param);
    if (UCS_PTR_IS_ERR(sending)) failed_ = true;
    if (UCS_PTR_IS_PTR(sending)) return;
    delete told;
}

void Connection::done_with_first()
{
    auto first = arrived_.begin();
    if (first->second.data) ucx_.ucp_am_data_release(worker_, first->second.data);
    arrived_.erase(first);
    next_++, at_ = 0;
    if (next_ - told_ >= kWindow / 4 && !over()) tell();
}

// What was announced comes now: both sides are there for it. False: the connection failed.
bool Connection::fetch(Lock &lock, Message &m, void *to)
{
    ucp_request_param_t param{};
    param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_MEMORY_TYPE;
    param.memory_type = UCS_MEMORY_TYPE_HOST;
    param.user_data = this;
    param.cb.recv_am = [](void *request, ucs_status_t status, size_t, void *self) {
        auto &c = *static_cast<Connection *>(self);
        c.fetched_ = c.changed_ = true;
        c.fetch_status_ = status;
        c.ucx_.ucp_request_free(request);
    };
    fetched_ = false;
    const ucs_status_ptr_t fetching = ucx_.ucp_am_recv_data_nbx(worker_, std::exchange(m.data, nullptr), to, m.bytes, &param);
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
size_t Connection::take(Lock &lock, void *to, size_t bytes)
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

ssize_t Connection::receive(void *to, size_t bytes, int timeout)
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

// The next message of the parts, behind the bytes that are under way. Small parts go together, in a copy.
bool Connection::start_send(const iovec *parts, int count, size_t skip)
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
    param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS | UCP_OP_ATTR_FIELD_MEMORY_TYPE;
    param.memory_type = UCS_MEMORY_TYPE_HOST;
    param.flags = large ? UCP_AM_SEND_FLAG_RNDV : UCP_AM_SEND_FLAG_EAGER;
    param.user_data = &s;
    param.cb.send = [](void *request, ucs_status_t status, void *data) {
        auto &sent = *static_cast<Send *>(data);
        sent.status = status;
        sent.done = sent.connection->changed_ = true;
        sent.connection->ucx_.ucp_request_free(request);
    };
    const ucs_status_ptr_t sending = ucx_.ucp_am_send_nbx(peer_, kStream, &s.header, sizeof s.header, from, s.bytes, &param);
    if (UCS_PTR_IS_ERR(sending)) return failed_ = true, false;
    s.done = !UCS_PTR_IS_PTR(sending);
    under_way_++, bytes_under_way_ += s.bytes;
    dirty_ = true;
    return true;
}

// Bytes of the parts that are sent: what UCX reads them from is the caller's again.
size_t Connection::finished()
{
    size_t n = 0;
    for (; under_way_ && sends_[first_].done; first_ = (first_ + 1) % kSends, under_way_--) {
        if (sends_[first_].status != UCS_OK) failed_ = true;
        n += sends_[first_].bytes;
    }
    bytes_under_way_ -= n;
    return n;
}

ssize_t Connection::send(const iovec *parts, int count, int timeout)
{
    const auto end = timeout > 0 ? Clock::now() + milliseconds(timeout) : Deadline::max();
    Lock lock = enter();
    for (visits_++;;) {
        if (left_) return errno = EBADF, -1;
        if (over()) return errno = EPIPE, -1;
        // What did not get done the last time are the first of these bytes: who is told EAGAIN comes again with the same.
        for (size_t skip = bytes_under_way_; under_way_ < kSends && sequence_ < taken_ + kWindow && start_send(parts, count, skip);)
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

// UCX may still have some of it. What does not leave at once the finisher sees to, should nobody else come.
void Connection::flush()
{
    if (flushing_) return;
    ucp_request_param_t param{};
    param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
    param.user_data = this;
    param.cb.send = [](void *request, ucs_status_t, void *self) {
        auto &c = *static_cast<Connection *>(self);
        c.flushing_ = false;
        c.ucx_.ucp_request_free(request);
    };
    dirty_ = false;
    flushing_ = UCS_PTR_IS_PTR(ucx_.ucp_worker_flush_nbx(worker_, &param));
    if (flushing_) wanted_.notify_one();
}

// The thread that goes on with what was sent when all others have left.
void Connection::finish_alone()
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

// --- the rest

unsigned Connection::wait(unsigned events, int timeout)
{
    Lock lock = enter();
    visits_++;
    if (left_) return events;
    if (!there(events)) progress();
    if (const unsigned now = there(events); now || !timeout) return now;
    if (!ours()) return events;  // what is tried then says why
    sleep(lock, -1, timeout);
    return there(events);
}

// Who sleeps is woken by the connection's end.
void Connection::shutdown()
{
    closed_ = true;
    if (ours()) ::shutdown(tcp_->get(), SHUT_RDWR);
}

// Nothing here is touched any more: the lock may be another thread's, who is not in this process.
void Connection::leave_to_parent()
{
    left_ = closed_ = true;
    if (tcp_) tcp_->let_go();
}

Connection::~Connection()
{
    if (left_) {
        if (finisher_.joinable()) finisher_.detach();
        return;
    }
    {
        const Lock lock = enter();
        stop_ = true;
        wanted_.notify_one();
    }
    if (finisher_.joinable()) finisher_.join();
    const Lock lock = enter();
    for (auto &[sequence, m] : arrived_)
        if (m.data) ucx_.ucp_am_data_release(worker_, m.data);
    close_endpoint();
    if (worker_) ucx_.ucp_worker_destroy(worker_);
    if (context_) ucx_.ucp_cleanup(context_);
}

}  // namespace

Result<std::unique_ptr<UcxTransport>> UcxTransport::open()
{
    auto ucx = private_ucx();
    if (!ucx) return std::move(ucx).error();
    auto connection = std::make_unique<Connection>(**ucx);
    if (auto r = connection->start(); !r) return std::move(r).error();
    return std::unique_ptr<UcxTransport>(std::move(connection));
}

}  // namespace rgpu::net

#else

namespace rgpu::net {

Result<std::unique_ptr<UcxTransport>> UcxTransport::open()
{
    return error(ErrorKind::unsupported, "this rgpu was built without UCX: build it where libucx-dev is installed");
}

}  // namespace rgpu::net

#endif
