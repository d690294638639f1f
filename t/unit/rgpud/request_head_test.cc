// SPDX-License-Identifier: Apache-2.0
// What the control port makes of a request's head.
#include "rgpud/ports/request_head.h"

#include <criterion/criterion.h>

#include "util/defaults.h"

using namespace rgpu;
using namespace rgpu::serverd;

namespace {

const std::string kGet = "GET /v1/leases?job=1 HTTP/1.1\r\nHost: x\r\n";

RequestHead with(const std::string &fields) { return read_head(kGet + fields + "\r\n"); }

RequestHead posted(const std::string &fields)
{
    return read_head("POST /v1/offers HTTP/1.1\r\nHost: x\r\n" + fields + "\r\n");
}

std::string repeated(const std::string &text, size_t times)
{
    std::string all;
    while (times--) all += text;
    return all;
}

}  // namespace

Test(request_head, takes_what_the_client_sends)
{
    cr_expect_eq(with("Accept: */*\r\nAuthorization: MUNGE x\r\n").status, 0);
    RequestHead post = posted("Content-Type: application/json\r\nContent-Length: 17\r\n");
    cr_expect_eq(post.status, 0, "%s", post.why.c_str());
    cr_expect_eq(post.body, 17u);
    cr_expect_eq(
        posted("content-length:\t65536 \r\nCONTENT-TYPE: Application/JSON; charset=utf-8\r\n").body,
        65536u);
    cr_expect_eq(read_head("GET / HTTP/1.0\r\n\r\n").status, 0);
    cr_expect_eq(read_head("HEAD /metrics HTTP/1.1\r\nHost:\r\n\r\n").status, 0);
}

Test(request_head, refuses_what_the_api_does_not_need)
{
    cr_expect_eq(with("Range: bytes=0-1,2-3\r\n").status, 416);
    cr_expect_eq(with("range: bytes=0-\r\n").status, 416);
    cr_expect_eq(with("If-Range: x\r\n").status, 416);
    cr_expect_eq(with("Expect: 100-continue\r\n").status, 417);
    cr_expect_eq(with("Upgrade: h2c\r\n").status, 400);
    cr_expect_eq(with("Trailer: x\r\n").status, 400);
    cr_expect_eq(posted("Transfer-Encoding: chunked\r\n").status, 411);
    cr_expect_eq(posted("Content-Length: 1\r\nTransfer-Encoding: chunked\r\n").status, 411);
    cr_expect_eq(posted("Content-Length: 1\r\nContent-Encoding: gzip\r\n").status, 415);
    cr_expect_eq(
        posted("Content-Length: 1\r\nContent-Type: multipart/form-data; boundary=x\r\n").status,
        415);
    cr_expect_eq(
        posted("Content-Length: 1\r\nContent-Type: application/x-www-form-urlencoded\r\n").status,
        415);
    cr_expect_eq(posted("Content-Length: 1\r\nContent-Type: application/jsonp\r\n").status, 415);
}

Test(request_head, bounds_every_part)
{
    cr_expect_eq(with(repeated("A: b\r\n", defaults::kMaxRequestFields - 1)).status, 0);
    cr_expect_eq(with(repeated("A: b\r\n", defaults::kMaxRequestFields)).status, 431);
    cr_expect_eq(with("A: " + std::string(defaults::kMaxRequestHead, 'x') + "\r\n").status, 431);
    cr_expect_eq(read_head("GET /" + std::string(defaults::kMaxRequestTarget, 'x') +
                           " HTTP/1.1\r\nHost: x\r\n\r\n")
                     .status,
                 414);
    cr_expect_eq(posted("Content-Length: 65537\r\n").status, 413);
    cr_expect_eq(posted("Content-Length: 99999999999999999999999\r\n").status, 413);
    for (const char *number : {"-1", "+1", "0x1", "1 1", "1,1", "", "1.0"})
        cr_expect_eq(posted("Content-Length: " + std::string(number) + "\r\n").status, 400, "%s",
                     number);
    cr_expect_eq(posted("").status, 411);
}

Test(request_head, refuses_what_two_readers_could_read_differently)
{
    cr_expect_eq(posted("Content-Length: 1\r\nContent-Length: 2\r\n").status, 400);
    cr_expect_eq(posted("Content-Length: 1\r\ncontent-length: 1\r\n").status, 400);
    cr_expect_eq(with("Host: y\r\n").status, 400);
    cr_expect_eq(with("Authorization: a\r\nAuthorization: b\r\n").status, 400);
    cr_expect_eq(with("A : b\r\n").status, 400);
    cr_expect_eq(with(" folded\r\n").status, 400);
    cr_expect_eq(with("no colon\r\n").status, 400);
    cr_expect_eq(with(": b\r\n").status, 400);
    cr_expect_eq(with("A: b\nC: d\r\n").status, 400);
    cr_expect_eq(with("A: b\rC: d\r\n").status, 400);
    cr_expect_eq(with(std::string("A: b\0c\r\n", 8)).status, 400);
    cr_expect_eq(with("A: \xc3\xa9\r\n").status, 400);
    cr_expect_eq(read_head("GET / HTTP/1.1\r\n\r\n").status, 400, "no Host");
}

Test(request_head, knows_four_methods_and_one_version)
{
    auto line = [](const std::string &text) {
        return read_head(text + "\r\nHost: x\r\nContent-Length: 0\r\n\r\n").status;
    };
    cr_expect_eq(line("DELETE /v1/leases HTTP/1.1"), 0);
    for (const char *method : {"PUT", "CONNECT", "TRACE", "OPTIONS", "PRI", "get"})
        cr_expect_eq(line(std::string(method) + " / HTTP/1.1"), 501, "%s", method);
    cr_expect_eq(line("GET / HTTP/2.0"), 505);
    cr_expect_eq(line("GET / HTTP/9.9"), 505);
    for (const char *wrong : {"", "garbage", "GET /", "GET  HTTP/1.1", "GET / FTP/1.1",
                              " / HTTP/1.1", "G\001T / HTTP/1.1", "GET * HTTP/1.1",
                              "GET http://x/ HTTP/1.1", "GET /a b HTTP/1.1", "GET /\xff HTTP/1.1"})
        cr_expect_eq(line(wrong), 400, "%s", wrong);
}

Test(request_head, every_cut_and_every_byte_is_answered_somehow)
{
    const std::string good = "POST /v1/offers HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n";
    for (size_t n = 0; n < good.size(); ++n) (void)read_head(good.substr(0, n));
    for (size_t n = 0; n < good.size(); ++n)
        for (int byte = 0; byte < 256; ++byte) {
            std::string changed = good;
            changed[n] = static_cast<char>(byte);
            RequestHead head = read_head(changed);
            cr_assert(head.status == 0 || head.status >= 400);
            cr_assert_leq(head.body, defaults::kMaxRequestBody);
            cr_assert(head.status == 0 || head.why.size() > 10);
        }
}

Test(request_head, finds_line_feeds_that_end_no_line)
{
    cr_expect_eq(stray_line_feed("GET / HTTP/1.1\r\nA: b\r\n", 0), std::string_view::npos);
    cr_expect_eq(stray_line_feed("\n", 0), 0u);
    cr_expect_eq(stray_line_feed("a\r\nb\n", 0), 4u);
    cr_expect_eq(stray_line_feed("a\nb\r\n", 2), std::string_view::npos);
}
