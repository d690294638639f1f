// SPDX-License-Identifier: Apache-2.0
// Opening them: in a thread of its own, as it takes some round trips.
#include "interpose/link/lanes.h"

#include <cstdlib>
#include <string>
#include <vector>

#include "calls/handles.h"
#include "interpose/base/background.h"
#include "interpose/base/log.h"
#include "net/handshake/data_connection.h"

namespace rgpu::interpose {

namespace {

constexpr std::chrono::seconds kPatience{10};

}  // namespace

Result<std::optional<size_t>> Lanes::wanted()
{
    const char *v = getenv("RGPU_CONNECTIONS");
    const std::string_view wanted = v ? v : "";
    if (wanted.empty() || wanted == "auto") return std::optional<size_t>();
    for (const size_t n : {1, 2, 4, 8, 16})
        if (wanted == std::to_string(n)) return std::optional(n);
    return error(ErrorKind::invalid, "RGPU_CONNECTIONS is \"%s\": auto, 1, 2, 4, 8 or 16", v);
}

void say_alone(const std::string &server, const std::string &why)
{
    say("copies to and from %s go over one connection: %s", server.c_str(), why.c_str());
}

void Lanes::begin()
{
    start_thread(session_, [this] { run(); });  // where there is none, it goes on as it is
}

void Lanes::run()
{
    if (auto opened = open(); !opened && always_ && !session_.state())
        say_alone(session_.server(), opened.error().text);
}

Result<void> Lanes::open()
{
    Reply reply;
    constexpr auto ask = static_cast<calls::CallId>(wire::kLanesCall);
    if (session_.ask(
            ask, calls::kNoHandle, [](wire::Writer &w) { w.value(wire::LanesCall()); }, reply))
        return {};  // the connection is gone
    const auto number = wire::Reader(reply.body.data(), reply.body.size()).value<uint64_t>();
    if (!number) return error(ErrorKind::unsupported, "the GPU server takes no more");
    const auto deadline = net::Clock::now() + kPatience;
    std::vector<net::OwnSocket> lanes;
    // One after the other: many programs may do so at once, and a server bounds its handshakes.
    while (lanes.size() < count_) {
        auto lane =
            net::connect_lane(server_.address, server_.lease, server_.secret, number, deadline);
        if (!lane) return std::move(lane).error();
        if (lane->place != lanes.size())
            return error(ErrorKind::invalid, "someone else has opened more");
        lanes.push_back(std::move(lane->socket));
    }
    session_.use(std::move(lanes), always_);
    return {};
}

}  // namespace rgpu::interpose
