// SPDX-License-Identifier: Apache-2.0
// The control API client's HTTP: many requests at once, kept connections, and servers that
// misbehave.
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <functional>
#include <thread>

#include "pool/client/http.h"
#include "util/defaults.h"

using namespace rgpu;
using namespace rgpu::pool;
using namespace std::chrono_literals;

namespace {

constexpr Milliseconds kLong = 20s;
constexpr const char *kGood = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi";

// A server on loopback: each connection that it accepts, one after the other, is the next of
// `talks`'s.
class Server {
public:
    using Talk = std::function<void(int fd)>;
    explicit Server(std::vector<Talk> talks)
    {
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        socklen_t size = sizeof address;
        fd_ = Fd(socket(AF_INET, SOCK_STREAM, 0));
        cr_assert(!bind(fd_.get(), reinterpret_cast<sockaddr *>(&address), size) &&
                  !listen(fd_.get(), 1024));
        getsockname(fd_.get(), reinterpret_cast<sockaddr *>(&address), &size);
        port = ntohs(address.sin_port);
        thread_ = std::thread([this, talks = std::move(talks)] {
            for (const Talk &talk : talks) {
                Fd peer(accept(fd_.get(), nullptr, nullptr));
                talk(peer.get());
            }
        });
    }
    ~Server() { thread_.join(); }
    HttpCall call(const char *method = "GET", std::string body = {},
                  const char *host = "127.0.0.1") const
    {
        return {method,          std::string(host) + ":" + std::to_string(port),
                "/v1/x",         "",
                std::move(body), ""};
    }
    int port = 0;

private:
    Fd fd_;
    std::thread thread_;
};

// One request, as far as it is to be read: until its end, or until the peer has closed.
std::string request(int fd)
{
    std::string got;
    char c;
    while (recv(fd, &c, 1, 0) == 1) {
        got += c;
        size_t head = got.find("\r\n\r\n"), length = got.find("Content-Length: ");
        if (head != got.npos &&
            got.size() >= head + 4 + (length == got.npos ? 0 : std::stoul(got.substr(length + 16))))
            break;
    }
    return got;
}

void say(int fd, const std::string &text) { send(fd, text.data(), text.size(), MSG_NOSIGNAL); }

std::string failure(const Result<HttpReply> &reply)
{
    cr_assert(!reply);
    cr_expect(reply.error().kind == ErrorKind::disconnected);
    return reply.error().text;
}

}  // namespace

Test(http, answers_come_in_the_order_of_the_calls)
{
    std::string seen;
    auto slow = [&](int fd) {
        seen = request(fd);
        for (char c : std::string("HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\n\r\nnone"))
            say(fd, std::string(1, c));
    };
    Server first({slow}), second({[](int fd) { request(fd), say(fd, kGood); }});
    Http http;
    auto replies = http.perform({first.call("POST", "{\"a\":1}"), second.call()}, kLong);
    cr_assert(replies[0] && replies[1]);
    cr_expect_eq(replies[0]->status, 404u);
    cr_expect(replies[0]->body == "none");
    cr_expect_eq(replies[1]->status, 200u);
    cr_expect(replies[1]->body == "hi");
    cr_expect(seen.starts_with("POST /v1/x HTTP/1.1\r\nHost: 127.0.0.1:"), "%s", seen.c_str());
    cr_expect(seen.ends_with("\r\nContent-Length: 7\r\n\r\n{\"a\":1}"), "%s", seen.c_str());
}

Test(http, chunks_and_answers_that_end_with_the_connection)
{
    Server server({[](int fd) {
                       request(fd), say(fd, "HTTP/1.1 200 OK\r\nTransfer-Encoding: "
                                            "chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n");
                   },
                   [](int fd) { request(fd), say(fd, "HTTP/1.1 200 OK\r\n\r\nto the end"); }});
    Http http;
    auto reply = http.perform({server.call()}, kLong);
    cr_assert(reply[0]);
    cr_expect(reply[0]->body == "abcde");
    reply = http.perform({server.call()}, kLong);
    cr_assert(reply[0]);
    cr_expect(reply[0]->body == "to the end");
}

Test(http, a_connection_is_kept)
{
    Server server({[](int fd) { request(fd), say(fd, kGood), request(fd), say(fd, kGood); }});
    Http http;
    for (int i = 0; i < 2; ++i) cr_expect(http.perform({server.call()}, kLong)[0]);
}

Test(http, a_kept_connection_that_ends_under_a_request_is_made_anew)
{
    Server server({[](int fd) { request(fd), say(fd, kGood), request(fd); },
                   [](int fd) { request(fd), say(fd, kGood); }});
    Http http;
    for (int i = 0; i < 2; ++i) cr_expect(http.perform({server.call()}, kLong)[0]);
}

Test(http, a_new_connection_that_ends_under_a_request_is_a_failure)
{
    Server server(
        {[](int fd) { request(fd); },
         [](int fd) { request(fd), say(fd, "HTTP/1.1 200 OK\r\nContent-Le"); },
         [](int fd) { request(fd), say(fd, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf"); }});
    Http http;
    cr_expect(failure(http.perform({server.call()}, kLong)[0]) == "it closed the connection");
    for (int i = 0; i < 2; ++i) failure(http.perform({server.call()}, kLong)[0]);
}

Test(http, what_is_no_http_or_too_large_is_refused)
{
    std::string large = "HTTP/1.1 200 OK\r\nContent-Length: " +
                        std::to_string(defaults::kMaxReplyBody + 1) + "\r\n\r\n";
    Server server({[](int fd) { request(fd), say(fd, "SSH-2.0-OpenSSH_9.2\r\n\r\n\r\n"); },
                   [&](int fd) { request(fd), say(fd, large); },
                   [](int fd) {
                       request(fd), say(fd, "HTTP/1.1 200 OK\r\nX: " + std::string(100'000, 'x'));
                   }});
    Http http;
    for (int i = 0; i < 3; ++i) {
        std::string text = failure(http.perform({server.call()}, kLong)[0]);
        cr_expect(text.starts_with("its answer cannot be used: "), "%s", text.c_str());
    }
}

Test(http, who_is_not_there_or_says_nothing_is_named_so)
{
    Http http;
    int port;
    {
        Server gone({[](int) {}});
        port = gone.port;
        http.perform({gone.call()}, kLong);
    }
    HttpCall call{"GET", "127.0.0.1:" + std::to_string(port), "/", "", "", ""};
    cr_expect(failure(http.perform({call}, kLong)[0]) ==
              "cannot connect to it: Connection refused");
    call.address = "no-such-host.invalid:1";
    cr_expect(
        failure(http.perform({call}, kLong)[0]).starts_with("cannot resolve no-such-host.invalid"));

    Server silent({[](int fd) { request(fd), request(fd); }}),
        quick({[](int fd) { request(fd), say(fd, kGood); }});
    auto replies = http.perform({silent.call(), quick.call()}, 300ms);
    cr_expect(failure(replies[0]) == "it did not answer within the time");
    cr_expect(replies[1]);
}

Test(http, every_address_of_a_name_is_tried)
{
    // localhost is ::1 first, where nobody listens.
    Server server({[](int fd) { request(fd), say(fd, kGood); }});
    Http http;
    auto reply = http.perform({server.call("GET", {}, "localhost")}, kLong);
    cr_expect(reply[0], "%s", reply[0] ? "" : reply[0].error().text.c_str());
}

Test(http, asks_more_servers_at_once_than_files_may_be_open, .timeout = 60)
{
    constexpr size_t kServers = 200;
    rlimit limit{};
    cr_assert(getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_max > kServers + 200);
    limit.rlim_cur = 128;
    cr_assert(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    auto answer = [](int fd) {
        request(fd);
        say(fd, kGood);
    };
    Server server(std::vector<Server::Talk>(kServers, answer));
    Http http;
    std::vector<HttpCall> calls(kServers, server.call());
    for (const Result<HttpReply> &reply : http.perform(calls, kLong))
        cr_expect(reply && reply->status == 200, "%s",
                  reply ? "another status" : reply.error().text.c_str());
    cr_expect(getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur == 128,
              "programs that it starts have the limit that they rely on");
    cr_expect(Fd(open("/dev/null", O_RDONLY | O_CLOEXEC)), "files can be opened: %s",
              strerror(errno));
}
