// SPDX-License-Identifier: Apache-2.0
// One end of a connection through UCX. ucx_connection.cc sets it up, drives UCX, sleeps and ends
// it; ucx_stream.cc sends and receives.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "net/transport/own_socket.h"
#include "net/ucx/ucx.h"
#include "net/ucx/ucx_transport.h"

namespace rgpu::net {

class UcxConnection final : public UcxTransport {
public:
    explicit UcxConnection(const Ucx &ucx) : ucx_(ucx) {}
    ~UcxConnection() override;
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

    enum Id : unsigned { kHello = 1, kStream = 2, kTaken = 3 };  // of active messages
    // In front of each.
    struct Header {
        uint64_t word = 0;
        uint64_t sequence = 0;  // kStream: its number, from 1
        uint64_t taken =
            0;  // the number of the first message that its sender has not done with yet
    };
    static constexpr size_t kSends = 4;  // under way at once
    static constexpr std::chrono::seconds kFarewell{
        1};  // for requests to end once their endpoint has

    struct Message {
        void *data = nullptr;  // UCX's; null: fetched
        size_t bytes = 0;
        bool announced = false;
        std::unique_ptr<uint8_t[]> copy;
    };
    struct Send {
        UcxConnection *connection = nullptr;
        Header header;
        std::unique_ptr<uint8_t[]> gathered;
        size_t bytes = 0;
        bool done = false;
        ucs_status_t status = UCS_OK;
    };
    struct Told {
        const UcxConnection &connection;
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

    static ucs_status_t on_hello(void *, const void *, size_t, void *, size_t,
                                 const ucp_am_recv_param_t *);
    static ucs_status_t on_stream(void *, const void *, size_t, void *, size_t,
                                  const ucp_am_recv_param_t *);
    static ucs_status_t on_taken(void *, const void *, size_t, void *, size_t,
                                 const ucp_am_recv_param_t *);
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
    bool met_ = false, changed_ = false, broken_ = false, rung_ = false;
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

    bool dirty_ = false,
         flushing_ = false;  // something was sent since the last flush; a flush is under way
    std::condition_variable wanted_;
    std::thread finisher_;
    bool stop_ = false;
};

// For poll(): rounded up, 0 when it is over.
int milliseconds_until(Deadline);

}  // namespace rgpu::net
