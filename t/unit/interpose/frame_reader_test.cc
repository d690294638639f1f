// SPDX-License-Identifier: Apache-2.0
// Frames that come in pieces, many at once, large, packed, or not at all.
#include "interpose/link/frame_reader.h"

#include <thread>

#include "link_support.h"

using namespace rgpu;
using namespace rgpu::interpose;
using wire::FrameHeader;
using wire::ServerFrame;

namespace {

struct Reading : test::Pair {
    FrameReader reader{connection};

    // The next frame's body.
    std::string next(uint32_t sequence)
    {
        FrameHeader h;
        cr_assert(reader.begin(h));
        cr_expect_eq(h.sequence, sequence);
        std::string body(h.bytes, '\0');
        cr_assert(reader.body(body.data(), body.size()));
        cr_assert(reader.end());
        return body;
    }
    void expect_lost()
    {
        FrameHeader h;
        cr_expect_not(reader.begin(h));
        cr_expect_eq(connection.state(), CUDA_ERROR_EXTERNAL_DEVICE);
    }
};

}  // namespace

Test(frame_reader, small_frames_that_came_at_once_are_read_apart)
{
    Reading r;
    cr_expect_not(r.reader.input_is_there());
    r.send(ServerFrame::reply, 1, "one");
    r.send(ServerFrame::reply, 2);
    r.send(ServerFrame::reply, 3, "three");
    cr_expect(r.next(1) == "one");
    cr_expect(r.reader.input_is_there());
    cr_expect(r.next(2) == "");
    cr_expect(r.next(3) == "three");
    cr_expect_not(r.reader.input_is_there());
}

Test(frame_reader, large_block_and_the_frame_behind_it)
{
    Reading r;
    std::string block(3 << 20, '\0');
    for (size_t i = 0; i < block.size(); i++) block[i] = static_cast<char>(i * 7 >> 3);
    std::thread server([&] {
        r.send(ServerFrame::data, 1, block);
        r.send(ServerFrame::reply, 2, "behind");
    });
    cr_expect(r.next(1) == block);
    cr_expect(r.next(2) == "behind");
    server.join();
}

Test(frame_reader, body_is_read_in_parts)
{
    Reading r;
    r.send(ServerFrame::reply, 1, "abcd");
    FrameHeader h;
    cr_assert(r.reader.begin(h));
    char a, rest[3];
    cr_assert(r.reader.body(&a, 1) && r.reader.body(rest, 3) && r.reader.end());
    cr_expect(a == 'a' && !memcmp(rest, "bcd", 3));
}

Test(frame_reader, end_within_a_body_loses_the_connection)
{
    Reading r;
    const FrameHeader h{100, static_cast<uint16_t>(ServerFrame::reply), 0, 1, 0};
    r.send_bytes(&h, sizeof h);
    r.send_bytes("short", 5);
    r.server = {};
    FrameHeader got;
    cr_assert(r.reader.begin(got));
    char body[100];
    cr_expect_not(r.reader.body(body, sizeof body));
    r.expect_lost();
}

Test(frame_reader, part_is_refused_before_a_method_was_agreed_on)
{
    Reading r;
    Packing packing(false);
    r.reader.use(packing);
    r.send(ServerFrame::reply, 1, "plain");
    cr_expect(r.next(1) == "plain");
    r.send(ServerFrame::part, 0, "packed", sizeof(FrameHeader));
    r.expect_lost();
}
