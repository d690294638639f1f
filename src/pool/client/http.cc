// SPDX-License-Identifier: Apache-2.0
#include "pool/client/http.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <cstring>
#include <future>
#include <memory>
#include <optional>
#include <thread>

#include "util/config.h"
#include "util/defaults.h"

namespace rgpu::pool {
namespace {

namespace http = boost::beast::http;
using Clock = std::chrono::steady_clock;

// A host's addresses, in the order that they are to be tried.
using Addresses = std::shared_ptr<addrinfo>;

Result<Addresses> look_up(const HostPort &to, int flags)
{
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = flags | AI_NUMERICSERV;
    addrinfo *found = nullptr;
    int failed = getaddrinfo(to.host.c_str(), std::to_string(to.port).c_str(), &hints, &found);
    if (failed)
        return error(ErrorKind::disconnected, "cannot resolve %s: %s", to.host.c_str(),
                     failed == EAI_SYSTEM ? strerror(errno) : gai_strerror(failed));
    return Addresses(found, freeaddrinfo);
}

// A name service that does not answer holds up nobody but those who wait for it: it is asked in a
// thread of its own, which is left alone when the time is over.
std::future<Result<Addresses>> looking_up(const HostPort &to)
{
    std::promise<Result<Addresses>> promise;
    auto future = promise.get_future();
    if (auto numeric = look_up(to, AI_NUMERICHOST))
        promise.set_value(std::move(numeric));
    else
        std::thread([to, promise = std::move(promise)]() mutable {
            promise.set_value(look_up(to, AI_ADDRCONFIG));
        }).detach();
    return future;
}

std::string text_of(const HttpCall &call)
{
    std::string text = call.method + " " + call.target + " HTTP/1.1\r\nHost: " + call.address +
                       "\r\nAccept: */*\r\n";
    if (!call.authorization.empty()) text += "Authorization: " + call.authorization + "\r\n";
    if (!call.node_config.empty()) text += "Rgpu-Node-Config: " + call.node_config + "\r\n";
    if (call.method != "GET")
        text += "Content-Type: application/json\r\nContent-Length: " +
                std::to_string(call.body.size()) + "\r\n";
    return text + "\r\n" + call.body;
}

// One request under way.
class Exchange {
public:
    Exchange(const HttpCall &call, Fd kept)
        : out_(text_of(call)), fd_(std::move(kept)), reused_(fd_)
    {
        auto to = parse_address(call.address);
        if (!to)
            end(error(ErrorKind::invalid, "%s", to.error().text.c_str()));
        else
            host_ = *to;
        if (to && !reused_) looking_up_ = looking_up(host_);
    }

    // Waits for the host's addresses if need be, and begins.
    void begin(Clock::time_point deadline)
    {
        if (result_) return;
        if (reused_) return restart();
        if (looking_up_.wait_until(deadline) != std::future_status::ready)
            return end(error(ErrorKind::disconnected, "cannot resolve %s within the time",
                             host_.host.c_str()));
        auto found = looking_up_.get();
        if (!found) return end(std::move(found).error());
        addresses_ = *found;
        connect_to(addresses_.get());
    }

    bool ended() const { return result_.has_value(); }
    pollfd wanted() const
    {
        return {fd_.get(), static_cast<short>(sent_ < out_.size() ? POLLOUT : POLLIN), 0};
    }

    // The socket is ready for what was wanted.
    void go_on()
    {
        if (connecting_ && !connected()) return;
        if (sent_ < out_.size())
            send_some();
        else
            receive_some();
    }

    void time_is_over()
    {
        if (result_) return;
        if (connecting_)
            end(error(ErrorKind::disconnected, "cannot connect to it within the time"));
        else
            end(error(ErrorKind::disconnected, "it did not answer within the time"));
    }

    // The connection, if it may be used again.
    Fd keep() { return result_ && *result_ && keep_alive_ ? std::move(fd_) : Fd(); }
    Result<HttpReply> take() { return std::move(*result_); }

private:
    using Parser = http::response_parser<http::string_body>;

    void end(Result<HttpReply> result) { result_.emplace(std::move(result)); }
    void failed(const char *what, int number)
    {
        end(error(ErrorKind::disconnected, "%s: %s", what, strerror(number)));
    }

    void restart()
    {
        sent_ = 0;
        received_.clear();
        parser_.emplace();
        parser_->eager(true);
        parser_->body_limit(defaults::kMaxReplyBody);
    }

    // Begins to connect to this address or the next that can be tried at all.
    void connect_to(const addrinfo *address)
    {
        restart();
        for (int failure = 0;; address = address->ai_next) {
            if (!address) return failed("cannot connect to it", failure);
            address_ = address;
            fd_ = Fd(socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
            if (!fd_) {
                failure = errno;
                continue;
            }
            const int on = 1;
            setsockopt(fd_.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
            connecting_ = true;
            if (connect(fd_.get(), address->ai_addr, address->ai_addrlen) == 0 ||
                errno == EINPROGRESS)
                return;
            failure = errno;
        }
    }

    bool connected()
    {
        int number = 0;
        socklen_t size = sizeof number;
        if (getsockopt(fd_.get(), SOL_SOCKET, SO_ERROR, &number, &size) != 0) number = errno;
        if (number == 0) {
            connecting_ = false;
            return true;
        }
        if (address_->ai_next)
            connect_to(address_->ai_next);
        else
            failed("cannot connect to it", number);
        return false;
    }

    void send_some()
    {
        ssize_t n = send(fd_.get(), out_.data() + sent_, out_.size() - sent_, MSG_NOSIGNAL);
        if (n >= 0)
            sent_ += static_cast<size_t>(n);
        else if (errno != EAGAIN && errno != EINTR)
            lost(strerror(errno));
    }

    void receive_some()
    {
        std::array<char, 64 * 1024> buffer;
        ssize_t n = recv(fd_.get(), buffer.data(), buffer.size(), 0);
        if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
        if (n < 0) return lost(strerror(errno));
        boost::beast::error_code failure;
        if (n == 0 && (!parser_->got_some() || !received_.empty()))
            return lost("it closed the connection");
        if (n == 0)
            parser_->put_eof(failure);
        else
            parse(buffer.data(), static_cast<size_t>(n), failure);
        if (failure && failure != http::error::need_more)
            return end(error(ErrorKind::disconnected, "its answer cannot be used: %s",
                             failure.message().c_str()));
        if (!parser_->is_done()) return;
        keep_alive_ = n > 0 && received_.empty() && parser_->keep_alive();
        HttpReply reply;
        reply.status = parser_->get().result_int();
        reply.body = std::move(parser_->get().body());
        end(std::move(reply));
    }

    // The parser takes whole lines only: what it leaves is given to it again, with what comes next.
    void parse(const char *data, size_t bytes, boost::beast::error_code &failure)
    {
        const bool joined = !received_.empty();
        if (joined) {
            received_.append(data, bytes);
            data = received_.data();
            bytes = received_.size();
        }
        size_t used = 0;
        while (used < bytes && !parser_->is_done()) {
            size_t n = parser_->put(boost::asio::buffer(data + used, bytes - used), failure);
            used += n;
            if (failure || n == 0) break;
        }
        if (joined)
            received_.erase(0, used);
        else
            received_.assign(data + used, bytes - used);
    }

    // A connection that was kept may have been closed meanwhile by a server that has not seen the
    // request: once more, then.
    void lost(const char *why)
    {
        if (!reused_ || parser_->got_some() || !received_.empty())
            return end(error(ErrorKind::disconnected, "%s", why));
        reused_ = false;
        again_ = true;
    }

public:
    // To be begun again, on a connection of its own.
    bool begin_again()
    {
        if (!std::exchange(again_, false)) return false;
        looking_up_ = looking_up(host_);
        return true;
    }

private:
    std::string out_;
    size_t sent_ = 0;
    Fd fd_;
    bool reused_;
    bool connecting_ = false;
    bool keep_alive_ = false;
    bool again_ = false;
    HostPort host_;
    std::future<Result<Addresses>> looking_up_;
    Addresses addresses_;
    const addrinfo *address_ = nullptr;
    std::optional<Parser> parser_;
    std::string received_;  // not parsed yet
    std::optional<Result<HttpReply>> result_;
};

// Nothing has come on an idle connection, not even its end.
bool alive(int fd)
{
    pollfd look{fd, POLLIN, 0};
    return poll(&look, 1, 0) == 0;
}

// A login may have 1024 files open, and a pool more servers. Programs that use select(2) rely on
// the limit, so that it is raised for as long as it takes.
class RoomForFiles {
public:
    explicit RoomForFiles(size_t more)
    {
        constexpr rlim_t kOthers = 128;  // what the process has open besides
        if (getrlimit(RLIMIT_NOFILE, &was_) != 0) return;
        rlimit wanted = was_;
        wanted.rlim_cur = std::min(was_.rlim_max, more + kOthers);
        raised_ = wanted.rlim_cur > was_.rlim_cur && setrlimit(RLIMIT_NOFILE, &wanted) == 0;
    }
    RoomForFiles(const RoomForFiles &) = delete;
    RoomForFiles &operator=(const RoomForFiles &) = delete;
    ~RoomForFiles()
    {
        if (raised_) setrlimit(RLIMIT_NOFILE, &was_);
    }

    // How many may stay open, so that the process can go on opening files.
    size_t may_stay() const { return was_.rlim_cur / 2; }

private:
    rlimit was_{1024, 1024};
    bool raised_ = false;
};

}  // namespace

std::vector<Result<HttpReply>> Http::perform(const std::vector<HttpCall> &calls,
                                             Milliseconds timeout)
{
    const RoomForFiles room(calls.size() + kept_.size());
    const Clock::time_point deadline = Clock::now() + timeout;
    std::vector<std::unique_ptr<Exchange>> exchanges;
    for (const HttpCall &call : calls) {
        Fd kept;
        for (auto at = kept_.find(call.address); at != kept_.end() && !kept;
             at = kept_.find(call.address)) {
            if (alive(at->second.get())) kept = std::move(at->second);
            kept_.erase(at);
        }
        exchanges.push_back(std::make_unique<Exchange>(call, std::move(kept)));
    }
    for (auto &exchange : exchanges) exchange->begin(deadline);

    std::vector<pollfd> looks;
    std::vector<Exchange *> waiting;
    for (;;) {
        looks.clear();
        waiting.clear();
        for (auto &exchange : exchanges)
            if (!exchange->ended()) {
                looks.push_back(exchange->wanted());
                waiting.push_back(exchange.get());
            }
        auto left = std::chrono::ceil<Milliseconds>(deadline - Clock::now()).count();
        if (waiting.empty() || left <= 0) break;
        if (poll(looks.data(), looks.size(), static_cast<int>(left)) < 0 && errno != EINTR) break;
        for (size_t i = 0; i < waiting.size(); ++i)
            if (looks[i].revents) {
                waiting[i]->go_on();
                if (waiting[i]->begin_again()) waiting[i]->begin(deadline);
            }
    }

    std::vector<Result<HttpReply>> replies;
    for (size_t i = 0; i < calls.size(); ++i) {
        exchanges[i]->time_is_over();
        if (Fd fd = exchanges[i]->keep(); fd && kept_.size() < room.may_stay())
            kept_.emplace(calls[i].address, std::move(fd));
        replies.push_back(exchanges[i]->take());
    }
    return replies;
}

}  // namespace rgpu::pool
