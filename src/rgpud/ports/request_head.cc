// SPDX-License-Identifier: Apache-2.0
#include "rgpud/ports/request_head.h"

#include <strings.h>

#include <algorithm>
#include <array>

#include "util/defaults.h"
#include "util/units.h"

namespace rgpu::serverd {
namespace {

RequestHead refused(int status, const char *why) { return {0, status, why}; }

bool same(std::string_view a, std::string_view b)
{
    return a.size() == b.size() && strncasecmp(a.data(), b.data(), a.size()) == 0;
}

bool is_token(std::string_view text)
{
    constexpr std::string_view kMarks = "!#$%&'*+-.^_`|~";
    return !text.empty() && std::all_of(text.begin(), text.end(), [&](char c) {
        return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
               kMarks.find(c) != kMarks.npos;
    });
}

// Up to the next CRLF, which goes with it.
std::string_view next_line(std::string_view &rest)
{
    const size_t end = std::min(rest.find("\r\n"), rest.size());
    std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 2, rest.size()));
    return line;
}

struct Unwanted {
    std::string_view name;
    int status;
    const char *why;
};
constexpr std::array kUnwanted = {
    Unwanted{"Range", 416, "this server sends whole answers only: leave Range out"},
    Unwanted{"If-Range", 416, "this server sends whole answers only: leave If-Range out"},
    Unwanted{"Content-Range", 400, "this server takes whole bodies only: leave Content-Range out"},
    Unwanted{"Expect", 417, "this server says nothing before it has the body: leave Expect out"},
    Unwanted{"Upgrade", 400, "this server speaks HTTP/1.1 only: leave Upgrade out"},
    Unwanted{"HTTP2-Settings", 400, "this server speaks HTTP/1.1 only: leave HTTP2-Settings out"},
    Unwanted{"Trailer", 400, "this server takes no fields behind a body: leave Trailer out"},
    Unwanted{"Transfer-Encoding", 411, "send the body plain, with Content-Length"},
    Unwanted{"Content-Encoding", 415, "send the body plain: leave Content-Encoding out"},
};

// Fields that stand at most once.
constexpr std::array<std::string_view, 5> kSingle = {"Host", "Content-Length", "Content-Type",
                                                     "Authorization", "Rgpu-Node-Config"};

struct Fields {
    std::array<std::string_view, kSingle.size()> single;
    std::array<bool, kSingle.size()> there{};

    const std::string_view *find(std::string_view name) const
    {
        size_t at =
            static_cast<size_t>(std::find(kSingle.begin(), kSingle.end(), name) - kSingle.begin());
        return there[at] ? &single[at] : nullptr;
    }
};

// One field; a status when it is refused.
RequestHead take_field(std::string_view line, Fields &fields)
{
    const size_t colon = line.find(':');
    if (colon == line.npos || !is_token(line.substr(0, colon)))
        return refused(400, "a header field is no \"Name: value\"");
    std::string_view name = line.substr(0, colon), value = line.substr(colon + 1);
    if (!std::all_of(value.begin(), value.end(),
                     [](char c) { return c == '\t' || (c >= 0x20 && c <= 0x7e); }))
        return refused(400, "a header field holds more than printable ASCII");
    while (!value.empty() && (value.front() == ' ' || value.front() == '\t'))
        value.remove_prefix(1);
    while (!value.empty() && (value.back() == ' ' || value.back() == '\t')) value.remove_suffix(1);
    for (const Unwanted &unwanted : kUnwanted)
        if (same(name, unwanted.name)) return refused(unwanted.status, unwanted.why);
    for (size_t i = 0; i < kSingle.size(); ++i) {
        if (!same(name, kSingle[i])) continue;
        if (fields.there[i]) return refused(400, "a header field stands there twice");
        fields.there[i] = true;
        fields.single[i] = value;
    }
    return {};
}

// The request line; `body_wanted`: a Content-Length must follow. `version`: behind "HTTP/".
RequestHead read_request_line(std::string_view line, bool &body_wanted, std::string_view &version)
{
    const size_t first = line.find(' '), last = line.rfind(' ');
    if (first == line.npos || first == last)
        return refused(400, "the request line is no \"METHOD /target HTTP/1.1\"");
    std::string_view method = line.substr(0, first),
                     target = line.substr(first + 1, last - first - 1);
    version = line.substr(last + 1);
    if (!is_token(method) || !version.starts_with("HTTP/"))
        return refused(400, "the request line is no \"METHOD /target HTTP/1.1\"");
    version.remove_prefix(5);
    if (version != "1.1" && version != "1.0")
        return refused(505, "this server speaks HTTP/1.1 only");
    body_wanted = method == "POST" || method == "DELETE";
    if (!body_wanted && method != "GET" && method != "HEAD")
        return refused(501, "this server knows GET, HEAD, POST and DELETE only");
    if (target.size() > defaults::kMaxRequestTarget)
        return refused(414, "the request's target is too long");
    if (!target.starts_with('/') ||
        !std::all_of(target.begin(), target.end(), [](char c) { return c > 0x20 && c < 0x7f; }))
        return refused(400, "the request's target is no path");
    return {};
}

RequestHead read_body_length(const Fields &fields, bool wanted)
{
    const std::string_view *type = fields.find("Content-Type"),
                           *length = fields.find("Content-Length");
    if (type && !same(type->substr(0, type->find_first_of("; \t")), "application/json"))
        return refused(415, "bodies are JSON here: send Content-Type: application/json, or none");
    if (!length && wanted)
        return refused(411, "a Content-Length is needed, 0 where there is no body");
    if (!length) return {};
    if (length->empty() || length->find_first_not_of("0123456789") != length->npos)
        return refused(400, "Content-Length is no number");
    Result<int64_t> number =
        parse_integer(*length, 0, static_cast<int64_t>(defaults::kMaxRequestBody));
    if (!number) return refused(413, "the body is too large");
    return {static_cast<size_t>(*number), 0, {}};
}

}  // namespace

RequestHead read_head(std::string_view head)
{
    if (head.size() > defaults::kMaxRequestHead)
        return refused(431, "the request's header is too long");
    bool body_wanted = false;
    std::string_view version;
    if (RequestHead line = read_request_line(next_line(head), body_wanted, version); line.status)
        return line;
    Fields fields;
    size_t count = 0;
    for (std::string_view line = next_line(head); !line.empty(); line = next_line(head)) {
        if (++count > defaults::kMaxRequestFields)
            return refused(431, "the request has too many header fields");
        if (RequestHead field = take_field(line, fields); field.status) return field;
    }
    if (version == "1.1" && !fields.find("Host")) return refused(400, "a Host field is needed");
    return read_body_length(fields, body_wanted);
}

size_t stray_line_feed(std::string_view received, size_t at)
{
    for (at = received.find('\n', at); at != received.npos; at = received.find('\n', at + 1))
        if (at == 0 || received[at - 1] != '\r') return at;
    return received.npos;
}

const char *words_of(int status)
{
    switch (status) {
    case 400: return "Bad Request";
    case 411: return "Length Required";
    case 413: return "Content Too Large";
    case 414: return "URI Too Long";
    case 415: return "Unsupported Media Type";
    case 416: return "Range Not Satisfiable";
    case 417: return "Expectation Failed";
    case 426: return "Upgrade Required";
    case 431: return "Request Header Fields Too Large";
    case 501: return "Not Implemented";
    case 505: return "HTTP Version Not Supported";
    default: return "Refused";
    }
}

}  // namespace rgpu::serverd
