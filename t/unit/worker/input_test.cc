// SPDX-License-Identifier: Apache-2.0
// Frames as the dispatcher reads them, and as another thread sees them while it is away: in order,
// each once, and what that thread took the dispatcher does not see.
#include "worker/connection/input.h"

#include <criterion/criterion.h>

#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "net/transport/socket_transport.h"

using namespace rgpu;
using worker::Input;

namespace {

struct Stream {
    Stream()
    {
        int ends[2];
        cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
        far = ends[1];
        transport = std::make_unique<net::SocketTransport>(Fd(ends[0]));
        input = std::make_unique<Input>(*transport);
    }
    ~Stream() { close(far); }

    static std::string frame(uint16_t type, const std::string &body)
    {
        wire::FrameHeader h;
        h.bytes = static_cast<uint32_t>(body.size());
        h.type = type;
        return std::string(reinterpret_cast<const char *>(&h), sizeof h) + body;
    }
    void send(const std::string &bytes) const
    {
        cr_assert_eq(write(far, bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
    }
    // The next frame as the dispatcher reads it: "type:body".
    std::string next() const
    {
        const auto h = input->header();
        if (!h) return "end";
        const auto body = input->body(h->bytes);
        cr_assert(body);
        return std::to_string(h->type) + ":" +
               std::string(reinterpret_cast<const char *>(*body), h->bytes);
    }
    // What another thread sees; it takes frames of that type. "away" is told before.
    std::string ahead(uint16_t type) const
    {
        std::string seen;
        const bool away = input->look_ahead([&](const wire::FrameHeader &h, const uint8_t *body) {
            seen += std::to_string(h.type) + ":" +
                    std::string(reinterpret_cast<const char *>(body), h.bytes) + " ";
            return h.type == type;
        });
        return (away ? "away " : "here ") + seen;
    }

    int far;
    std::unique_ptr<net::SocketTransport> transport;
    std::unique_ptr<Input> input;
};

void be_away_for_long()
{
    const auto end = std::chrono::steady_clock::now() + Input::kAwayForLong;
    while (std::chrono::steady_clock::now() < end) std::this_thread::yield();
}

}  // namespace

Test(input, nothing_is_seen_while_the_reader_is_there)
{
    const Stream s;
    s.send(Stream::frame(7, "a"));
    cr_expect_eq(s.ahead(7), "here ");
    {
        const Input::Away away(*s.input, true);
        cr_expect_eq(s.ahead(7), "here ");  // not for long
    }
    {
        const Input::Away away(*s.input, false);
        be_away_for_long();
        cr_expect_eq(s.ahead(7), "here ");
    }
    cr_expect_eq(s.next(), "7:a");
}

Test(input, what_is_taken_is_gone_and_the_rest_keeps_its_order)
{
    const Stream s;
    // The reader has the first frame, and what came with it in its buffer.
    s.send(Stream::frame(1, "first") + Stream::frame(2, "b") + Stream::frame(7, "c"));
    cr_expect_eq(s.next(), "1:first");
    const std::string half = Stream::frame(7, "in two halves");
    {
        const Input::Away away(*s.input, true);
        be_away_for_long();
        s.send(Stream::frame(3, "") + half.substr(0, 20));
        cr_expect_eq(s.ahead(7), "away 2:b 7:c 3: ");
        cr_expect_eq(s.ahead(7), "away ", "each is seen once");
        s.send(half.substr(20) + Stream::frame(4, "d"));
        cr_expect_eq(s.ahead(7), "away 7:in two halves 4:d ");
    }
    cr_expect_eq(s.next(), "2:b");
    {
        const Input::Away away(*s.input, true);
        be_away_for_long();
        s.send(Stream::frame(7, "e") + Stream::frame(5, "f"));
        cr_expect_eq(s.ahead(7), "away 3: 4:d 7:e 5:f ", "what was not read is seen again");
    }
    s.send(Stream::frame(6, "g"));
    cr_expect(!s.input->empty() && s.input->comes_within(0));
    for (const char *wanted : {"3:", "4:d", "5:f", "6:g"})
        cr_expect_str_eq(s.next().c_str(), wanted);
    cr_expect(s.input->empty());
    shutdown(s.far, SHUT_WR);
    cr_expect_eq(s.next(), "end");
}

Test(input, large_frames_and_the_end_reach_the_reader)
{
    const Stream s;
    const std::string large(100000, 'x');
    std::thread sender([&] {
        s.send(Stream::frame(2, large) + Stream::frame(7, "end"));
        shutdown(s.far, SHUT_WR);
    });
    {
        const Input::Away away(*s.input, true);
        be_away_for_long();
        std::string seen;
        while (seen.find("7:end") == seen.npos) seen += s.ahead(7);
    }
    sender.join();
    cr_expect_eq(s.next(), "2:" + large);
    cr_expect_eq(s.next(), "end");
}
