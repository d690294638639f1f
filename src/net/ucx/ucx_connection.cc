// SPDX-License-Identifier: Apache-2.0
// The set-up of a connection through UCX, who drives it and sleeps, and its end.
#include "net/ucx/ucx_connection.h"

#ifdef RGPU_UCX

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <utility>

namespace rgpu::net {

using std::chrono::milliseconds;

namespace {

bool readable(int fd)
{
    pollfd look{fd, POLLIN | POLLRDHUP, 0};
    return poll(&look, 1, 0) > 0;
}

}  // namespace

int milliseconds_until(Deadline deadline)
{
    return static_cast<int>(std::clamp<int64_t>(
        std::chrono::ceil<milliseconds>(deadline - Clock::now()).count(), 0, INT_MAX));
}

// A thread that UCX's libc did not make, at its first visit.
UcxConnection::Lock UcxConnection::enter() const
{
    static thread_local bool known = false;
    if (!known) ucx_.own_locale(LC_GLOBAL_LOCALE), known = true;
    return Lock(mutex_);
}

Error UcxConnection::fails(const char *what, ucs_status_t status) const
{
    return error(ErrorKind::unsupported,
                 "UCX %s (%s); RGPU_UCX_TLS and RGPU_UCX_NET_DEVICES say what it uses, "
                 "RGPU_UCX_LOG_LEVEL=info what it finds",
                 what, ucx_.ucs_status_string(status));
}

Result<void> UcxConnection::start()
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
        am.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB |
                        UCP_AM_HANDLER_PARAM_FIELD_ARG | UCP_AM_HANDLER_PARAM_FIELD_FLAGS;
        am.id = handler.id, am.cb = handler.call, am.arg = this;
        am.flags = handler.id == kStream ? UCP_AM_FLAG_WHOLE_MSG | UCP_AM_FLAG_PERSISTENT_DATA
                                         : UCP_AM_FLAG_WHOLE_MSG;
        status = ucx_.ucp_worker_set_am_recv_handler(worker_, &am);
        if (status != UCS_OK) return fails("takes no active messages", status);
    }
    if (status = ucx_.ucp_worker_get_efd(worker_, &events_); status != UCS_OK)
        return fails("cannot wake who waits", status);
    fcntl(events_, F_SETFD, FD_CLOEXEC);
    bell_ = Fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!bell_) return error(ErrorKind::exhausted, "no event descriptor: %s", strerror(errno));
    ucp_address_t *address = nullptr;
    size_t bytes = 0;
    if (status = ucx_.ucp_worker_get_address(worker_, &address, &bytes); status != UCS_OK)
        return fails("has no address", status);
    address_.assign(reinterpret_cast<const char *>(address), bytes);
    ucx_.ucp_worker_release_address(worker_, address);
    if (bytes > kAddressBytes)
        return error(ErrorKind::unsupported,
                     "UCX uses too many networks at once: name one with RGPU_UCX_NET_DEVICES");
    return {};
}

Result<void> UcxConnection::connect(const std::string &their_address, uint64_t word)
{
    const Lock lock = enter();
    word_ = word;
    ucp_ep_params_t params{};
    params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                        UCP_EP_PARAM_FIELD_ERR_HANDLER;
    params.address = reinterpret_cast<const ucp_address_t *>(their_address.data());
    params.err_handler.cb = on_error;
    params.err_handler.arg = this;
    // UCX's shared memory does not tell that the peer has gone, and is left out where that is asked
    // for: the TCP connection does.
    ucs_status_t status = UCS_ERR_UNREACHABLE;
    for (ucp_err_handling_mode_t mode : {UCP_ERR_HANDLING_MODE_PEER, UCP_ERR_HANDLING_MODE_NONE}) {
        params.err_mode = mode;
        if ((status = ucx_.ucp_ep_create(worker_, &params, &peer_)) == UCS_OK) break;
    }
    if (status != UCS_OK) return peer_ = nullptr, fails("has no network to the other side", status);
    try {
        finisher_ = std::thread([this] { finish_alone(); });
    } catch (const std::system_error &failure) {
        return error(ErrorKind::exhausted, "UCX: no thread: %s", failure.what());
    }
    return {};
}

bool UcxConnection::greet(int tcp, Deadline deadline)
{
    Lock lock = enter();
    say_hello();
    for (progress(); !met_ && !over() && !readable(tcp);
         sleep(lock, tcp, milliseconds_until(deadline)))
        if (Clock::now() >= deadline) break;
    return met_;
}

void UcxConnection::answer(int tcp)
{
    Lock lock = enter();
    for (bool answered = false; !over() && !readable(tcp); sleep(lock, tcp, -1)) {
        progress();
        if (met_ && !answered) answered = true, say_hello(), progress();
    }
}

// --- with the lock held

void UcxConnection::say_hello()
{
    hello_.word = word_;
    ucp_request_param_t param{};
    param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA |
                         UCP_OP_ATTR_FIELD_FLAGS;
    param.flags = UCP_AM_SEND_FLAG_EAGER;
    param.user_data = this;
    param.cb.send = [](void *request, ucs_status_t, void *self) {
        static_cast<UcxConnection *>(self)->ucx_.ucp_request_free(request);
    };
    if (UCS_PTR_IS_ERR(
            ucx_.ucp_am_send_nbx(peer_, kHello, &hello_, sizeof hello_, nullptr, 0, &param)))
        failed_ = true;
}

void UcxConnection::progress()
{
    for (int rounds = 0; rounds < 64 && ucx_.ucp_worker_progress(worker_); rounds++) {}
    if (!std::exchange(changed_, false) || !sleepers_) return;
    const uint64_t one = 1;
    rung_ = true;
    (void)!write(bell_.get(), &one, sizeof one);
}

// Until something may have happened, or the time is over. `tcp`: a socket to look at for input,
// too, or -1 for the end of the connection's own.
void UcxConnection::sleep(Lock &lock, int tcp, int timeout)
{
    bool ended = false;
    if (const ucs_status_t armed = ucx_.ucp_worker_arm(worker_); armed == UCS_OK) {
        uint64_t rung;
        if (!sleepers_++ && std::exchange(rung_, false))
            (void)!read(bell_.get(), &rung, sizeof rung);
        pollfd looks[] = {{events_, POLLIN, 0},
                          {bell_.get(), POLLIN, 0},
                          {tcp >= 0 ? tcp
                           : tcp_   ? tcp_->get()
                                    : -1,
                           static_cast<short>(tcp >= 0 ? POLLIN | POLLRDHUP : POLLRDHUP), 0}};
        lock.unlock();
        ended = poll(looks, 3, timeout) > 0 &&
                looks[2].revents & (POLLRDHUP | POLLHUP | POLLERR | POLLNVAL);
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
void UcxConnection::look_for_the_rest()
{
    while (ucx_.ucp_worker_progress(worker_)) {}
    progress();
    closed_ = true;
}

void UcxConnection::close_endpoint()
{
    if (!peer_) return;
    ucp_request_param_t param{};
    param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
    param.flags = UCP_EP_CLOSE_FLAG_FORCE;
    ucs_status_ptr_t closing = ucx_.ucp_ep_close_nbx(std::exchange(peer_, nullptr), &param);
    const auto end = Clock::now() + kFarewell;
    if (!UCS_PTR_IS_PTR(closing)) return;
    while (ucx_.ucp_request_check_status(closing) == UCS_INPROGRESS && Clock::now() < end)
        ucx_.ucp_worker_progress(worker_);
    ucx_.ucp_request_free(closing);
}

// --- the rest

unsigned UcxConnection::wait(unsigned events, int timeout)
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
void UcxConnection::shutdown()
{
    closed_ = true;
    if (ours()) ::shutdown(tcp_->get(), SHUT_RDWR);
}

// Nothing here is touched any more: the lock may be another thread's, who is not in this process.
void UcxConnection::leave_to_parent()
{
    left_ = closed_ = true;
    if (tcp_) tcp_->let_go();
}

UcxConnection::~UcxConnection()
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

}  // namespace rgpu::net

#endif
