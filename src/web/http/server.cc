// SPDX-License-Identifier: Apache-2.0
#include "web/http/server.h"

#include <algorithm>
#include <list>
#include <map>
#include <optional>
#include <thread>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>

#include "util/units.h"

namespace rgpu::web {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using Code = boost::system::error_code;
using Text = std::shared_ptr<const std::string>;

constexpr std::chrono::seconds kRequestTime{10}, kBeat{15};
constexpr size_t kConnections = 512, kHeader = 16 * 1024, kListeners = 32, kLag = 16 << 20;
constexpr size_t kThreads = 2;

const char *words_of(int status)
{
    switch (status) {
    case 200: return "OK";
    case 304: return "Not Modified";
    case 400: return "Bad Request";
    case 401: return "Unauthorized";
    case 403: return "Forbidden";
    case 404: return "Not Found";
    case 405: return "Method Not Allowed";
    case 421: return "Misdirected Request";
    case 429: return "Too Many Requests";
    case 431: return "Request Header Fields Too Large";
    case 503: return "Service Unavailable";
    default: return "Internal Server Error";
    }
}

// What no answer goes without. The page runs its own scripts alone, asks this server alone, and
// stands in no frame of another site.
constexpr const char *kAlways =
    "Content-Security-Policy: default-src 'none'; script-src 'self'; style-src 'self'; connect-src "
    "'self'; img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'\r\n"
    "X-Content-Type-Options: nosniff\r\n"
    "Referrer-Policy: no-referrer\r\n"
    "Cross-Origin-Opener-Policy: same-origin\r\n"
    "Cross-Origin-Resource-Policy: same-origin\r\n";

std::string head_of(const Answer &answer, size_t size, bool close)
{
    std::string head = "HTTP/1.1 " + std::to_string(answer.status) + " " + words_of(answer.status) +
                       "\r\n" + kAlways;
    head += answer.etag.empty() ? "Cache-Control: no-store\r\n"
                                : "Cache-Control: no-cache\r\nETag: " + answer.etag + "\r\n";
    if (answer.status == 401) head += "WWW-Authenticate: Bearer\r\n";
    if (answer.status == 405) head += "Allow: GET, HEAD\r\n";
    head += "Content-Type: " + answer.type + "\r\n";
    // Proxies hand a stream on as it comes.
    if (!answer.stream.empty())
        head += "X-Accel-Buffering: no\r\n";
    else if (answer.status != 304)
        head += "Content-Length: " + std::to_string(size) + "\r\n";
    return head + (close ? "Connection: close\r\n\r\n" : "\r\n");
}

bool same_name(std::string_view a, std::string_view b)
{
    return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                      [](unsigned char x, unsigned char y) { return tolower(x) == tolower(y); });
}

std::string decoded(std::string_view text)
{
    const auto digit = [](char c) {
        return c >= '0' && c <= '9'   ? c - '0'
               : c >= 'a' && c <= 'f' ? c - 'a' + 10
               : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                      : -1;
    };
    std::string out;
    for (size_t i = 0; i < text.size(); ++i) {
        const int high = text[i] == '%' && i + 2 < text.size() ? digit(text[i + 1]) : -1;
        const int low = high >= 0 ? digit(text[i + 2]) : -1;
        if (low >= 0) {
            out += static_cast<char>(high * 16 + low);
            i += 2;
        } else {
            out += text[i] == '+' ? ' ' : text[i];
        }
    }
    return out;
}

}  // namespace

std::vector<std::string_view> Asked::all(std::string_view name) const
{
    std::vector<std::string_view> found;
    for (const auto &[field, value] : fields)
        if (same_name(field, name)) found.emplace_back(value);
    return found;
}

std::string Asked::parameter(std::string_view name) const
{
    for (size_t at = 0; at < query.size();) {
        const size_t end = std::min(query.find('&', at), query.size());
        const std::string_view part = std::string_view(query).substr(at, end - at);
        const size_t equals = part.find('=');
        if (equals != part.npos && part.substr(0, equals) == name)
            return decoded(part.substr(equals + 1));
        at = end + 1;
    }
    return "";
}

Answer text(int status, std::string body, std::string type)
{
    Answer answer;
    answer.status = status;
    answer.type = std::move(type);
    answer.body = std::make_shared<const std::string>(std::move(body));
    return answer;
}

namespace {
class Connection;
using Connections = std::list<std::shared_ptr<Connection>>;
}  // namespace

struct Server::State : std::enable_shared_from_this<Server::State> {
    Serve serve;
    asio::io_context io{1};
    asio::thread_pool answering{kThreads};
    asio::ip::tcp::acceptor acceptor{io};
    asio::steady_timer pause{io}, beat{io};
    std::thread thread;
    Connections connections;  // the oldest first; of `thread` alone, as what follows
    std::map<std::string, size_t> listeners;

    void accept();
    void beats();
    void let_in(asio::ip::tcp::socket socket);
    bool add_listener(const std::string &stream);
    void publish(const std::string &stream, const Text &events);
};

namespace {

class Connection : public std::enable_shared_from_this<Connection> {
public:
    Connection(asio::ip::tcp::socket socket, Server::Serve &serve, asio::thread_pool &answering)
        : stream_(std::move(socket)), serve_(serve), answering_(answering)
    {}

    // What the owner does for it.
    std::function<bool(const std::string &stream)> listens;
    std::function<void()> gone;

    const std::string &listens_to() const { return listens_to_; }

    void read()
    {
        parser_.emplace();
        parser_->header_limit(kHeader);
        parser_->body_limit(0);
        stream_.expires_after(kRequestTime);
        http::async_read(stream_, buffer_, *parser_,
                         [self = shared_from_this()](Code failed, size_t) { self->came(failed); });
    }

    void send(const Text &events)
    {
        lag_ += events->size();
        untaken_.push_back(events);
        if (lag_ > kLag) return close();
        if (untaken_.size() == 1) write_next();
    }

    void close()
    {
        Code ignored;
        (void)stream_.socket().close(ignored);
        if (auto tell = std::exchange(gone, nullptr)) tell();
    }

private:
    void came(Code failed)
    {
        if (failed == http::error::header_limit) return refuse(431, "the header is too long");
        if (failed == http::error::unexpected_body || failed == http::error::body_limit)
            return refuse(400, "requests have no body here");
        if (failed &&
            failed.category() == http::make_error_code(http::error::bad_method).category() &&
            failed != http::error::end_of_stream && failed != http::error::partial_message)
            return refuse(400, "the request cannot be understood");
        if (failed) return close();
        const auto &message = parser_->get();
        if (message.method() != http::verb::get && message.method() != http::verb::head)
            return refuse(405, "this page is only read: GET and HEAD");
        auto asked = std::make_shared<Asked>();
        const std::string_view target(message.target().data(), message.target().size());
        const size_t mark = std::min(target.find('?'), target.size());
        asked->path = target.substr(0, mark);
        asked->query = target.substr(std::min(mark + 1, target.size()));
        for (const auto &field : message)
            asked->fields.emplace_back(
                std::string(field.name_string().data(), field.name_string().size()),
                std::string(field.value().data(), field.value().size()));
        head_only_ = message.method() == http::verb::head;
        last_ = !message.keep_alive();
        stream_.expires_never();
        asio::post(answering_, [self = shared_from_this(), asked] {
            Answer answer;
            try {
                answer = self->serve_.answer(*asked);
            } catch (const std::exception &) {
                answer = text(500, "{\"error\":\"rgpu web failed inside\"}\n");
            }
            for (std::string_view known : asked->all("If-None-Match"))
                if (!answer.etag.empty() && known == answer.etag) {
                    answer.status = 304;
                    answer.body = nullptr;
                }
            asio::post(self->stream_.get_executor(),
                       [self, answer = std::move(answer)] { self->reply(answer); });
        });
    }

    void refuse(int status, const std::string &why)
    {
        last_ = true;
        reply(text(status, "{\"error\":\"" + why + "\"}\n"));
    }

    void reply(const Answer &answer)
    {
        if (!gone) return;
        if (!answer.stream.empty() && !head_only_) return open_stream(answer);
        const Text body = answer.body ? answer.body : std::make_shared<const std::string>();
        head_ = head_of(answer, body->size(), last_);
        std::vector<asio::const_buffer> parts = {asio::buffer(head_)};
        if (!head_only_ && answer.status != 304) parts.push_back(asio::buffer(*body));
        stream_.expires_after(kRequestTime);
        asio::async_write(stream_, parts, [self = shared_from_this(), body](Code failed, size_t) {
            failed || self->last_ ? self->end() : self->read();
        });
    }

    // A peer that still sends would lose the answer if it were closed at once.
    void end()
    {
        Code failed;
        (void)stream_.socket().shutdown(asio::ip::tcp::socket::shutdown_send, failed);
        if (failed) return close();
        stream_.expires_after(std::chrono::seconds(1));
        listen_for_end();
    }

    void open_stream(const Answer &answer)
    {
        if (!listens(answer.stream))
            return refuse(429, "too many pages of one user are open: close some");
        listens_to_ = answer.stream;
        stream_.expires_never();
        send(std::make_shared<const std::string>(head_of(answer, 0, true)));
        if (Text first = serve_.first(answer.stream))
            send(first);
        else
            return close();
        listen_for_end();
    }

    // Nothing comes any more but the end.
    void listen_for_end()
    {
        stream_.async_read_some(asio::buffer(scrap_),
                                [self = shared_from_this()](Code failed, size_t) {
                                    failed ? self->close() : self->listen_for_end();
                                });
    }

    void write_next()
    {
        // Not by stream_: its one clock would bound the reading, too.
        asio::async_write(stream_.socket(), asio::buffer(*untaken_.front()),
                          [self = shared_from_this()](Code failed, size_t) {
                              if (failed) return self->close();
                              self->lag_ -= self->untaken_.front()->size();
                              self->untaken_.pop_front();
                              if (!self->untaken_.empty()) self->write_next();
                          });
    }

    beast::tcp_stream stream_;
    Server::Serve &serve_;
    asio::thread_pool &answering_;
    beast::flat_buffer buffer_{2 * kHeader};
    std::optional<http::request_parser<http::empty_body>> parser_;
    bool head_only_ = false, last_ = false;
    std::string head_, listens_to_;
    std::list<Text> untaken_;  // of the stream
    size_t lag_ = 0;           // bytes of these
    char scrap_[256];
};

}  // namespace

void Server::State::accept()
{
    acceptor.async_accept([self = shared_from_this()](Code failed, asio::ip::tcp::socket socket) {
        if (failed == asio::error::operation_aborted) return;
        if (!failed) {
            self->let_in(std::move(socket));
            return self->accept();
        }
        // No descriptors, most of the time: no busy loop.
        self->pause.expires_after(std::chrono::milliseconds(100));
        self->pause.async_wait([self](Code ended) {
            if (!ended) self->accept();
        });
    });
}

void Server::State::let_in(asio::ip::tcp::socket socket)
{
    if (connections.size() >= kConnections) {
        const auto plain = std::find_if(connections.begin(), connections.end(),
                                        [](auto &c) { return c->listens_to().empty(); });
        if (plain == connections.end()) return;
        // It leaves the list, whose owner it may be.
        std::shared_ptr<Connection>(*plain)->close();
    }
    auto connection = std::make_shared<Connection>(std::move(socket), serve, answering);
    const auto at = connections.insert(connections.end(), connection);
    connection->listens = [this](const std::string &stream) { return add_listener(stream); };
    connection->gone = [this, at] {
        const std::string stream = (*at)->listens_to();
        connections.erase(at);
        if (!stream.empty() && --listeners[stream] == 0) {
            listeners.erase(stream);
            serve.listened(stream, false);
        }
    };
    connection->read();
}

bool Server::State::add_listener(const std::string &stream)
{
    size_t &count = listeners[stream];
    if (count >= kListeners) return false;
    if (++count == 1) serve.listened(stream, true);
    return true;
}

void Server::State::publish(const std::string &stream, const Text &events)
{
    // Whoever lags too far leaves the list meanwhile.
    for (auto at = connections.begin(); at != connections.end();) {
        auto connection = *at++;
        if (!connection->listens_to().empty() &&
            (stream.empty() || connection->listens_to() == stream))
            connection->send(events);
    }
}

// Proxies close a stream that says nothing for a minute.
void Server::State::beats()
{
    static const Text comment = std::make_shared<const std::string>(":\n\n");
    beat.expires_after(kBeat);
    beat.async_wait([self = shared_from_this()](Code ended) {
        if (ended) return;
        self->publish("", comment);
        self->beats();
    });
}

Server::Server(Serve serve) : state_(std::make_shared<State>())
{
    state_->serve = std::move(serve);
}

Server::~Server() { stop(); }

Result<int> Server::start(const std::string &address)
{
    const size_t colon = std::min(address.rfind(':'), address.size());
    std::string host = address.substr(0, colon);
    Result<int64_t> port =
        parse_integer(address.substr(std::min(colon + 1, address.size())), 0, 65535);
    if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
    if (host == "localhost") host = "127.0.0.1";
    Code failed;
    const auto ip = asio::ip::make_address(host, failed);
    if (!port || failed || !ip.is_loopback())
        return error(ErrorKind::invalid,
                     "\"%s\" is no address of this host alone: write 127.0.0.1:PORT or [::1]:PORT; "
                     "others come through a proxy here, which speaks TLS with them",
                     address.c_str());
    const asio::ip::tcp::endpoint at(ip, static_cast<unsigned short>(*port));
    auto &acceptor = state_->acceptor;
    if (!failed) (void)acceptor.open(at.protocol(), failed);
    if (!failed) (void)acceptor.set_option(asio::socket_base::reuse_address(true), failed);
    if (!failed) (void)acceptor.bind(at, failed);
    if (!failed) (void)acceptor.listen(asio::socket_base::max_listen_connections, failed);
    if (failed)
        return error(ErrorKind::unavailable,
                     "cannot listen on %s: %s; --listen 127.0.0.1:0 takes any free port",
                     address.c_str(), failed.message().c_str());
    state_->accept();
    state_->beats();
    state_->thread = std::thread([state = state_] { state->io.run(); });
    return acceptor.local_endpoint().port();
}

void Server::publish(const std::string &stream, std::shared_ptr<const std::string> events)
{
    asio::post(state_->io, [state = state_.get(), stream, events = std::move(events)] {
        state->publish(stream, events);
    });
}

void Server::stop()
{
    if (!state_->thread.joinable()) return;
    asio::post(state_->io, [state = state_.get()] {
        state->acceptor.close();
        state->pause.cancel();
        state->beat.cancel();
        while (!state->connections.empty()) {
            auto one = state->connections.front();
            one->close();
        }
    });
    state_->answering.join();
    state_->thread.join();
}

}  // namespace rgpu::web
