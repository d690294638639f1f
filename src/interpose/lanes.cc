// Opening them: in threads of its own, as it takes some round trips.
#include "interpose/lanes.h"

#include <algorithm>
#include <cstdlib>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "calls/handles.h"
#include "interpose/log.h"
#include "interpose/session.h"
#include "net/data_connection.h"

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

void Lanes::begin()
{
    if (begun_.exchange(true)) return;
    try {
        std::thread([this] { run(); }).detach();
    } catch (const std::system_error &) {
        // It goes on as it is.
    }
}

void Lanes::run()
{
    if (auto opened = open(); !opened && !session_.state())
        say("copies to and from %s go over one connection: %s", session_.server().c_str(), opened.error().text.c_str());
}

Result<void> Lanes::open()
{
    Reply reply;
    const auto ask = static_cast<calls::CallId>(wire::kLanesCall);
    if (session_.ask(ask, calls::kNoHandle, [](wire::Writer &w) { w.value(wire::LanesCall()); }, reply)) return {};  // the connection is gone
    const auto number = wire::Reader(reply.body.data(), reply.body.size()).value<uint64_t>();
    if (!number) return error(ErrorKind::unsupported, "the GPU server takes no more");
    const auto deadline = net::Clock::now() + kPatience;
    std::vector<std::optional<Result<net::Lane>>> lanes(count_);
    std::vector<std::thread> threads;
    try {
        for (auto &lane : lanes)
            threads.emplace_back([&, this] { lane.emplace(net::connect_lane(server_.address, server_.lease, server_.secret, number, deadline)); });
    } catch (const std::system_error &) {
    }
    for (std::thread &t : threads) t.join();
    std::vector<Fd> in_order(count_);
    for (auto &opened : lanes) {
        if (!opened) return error(ErrorKind::exhausted, "there are no threads to open more");
        auto &lane = *opened;
        if (!lane) return std::move(lane).error();
        if (lane->place >= count_ || in_order[lane->place]) return error(ErrorKind::invalid, "someone else has opened more");
        in_order[lane->place] = std::move(lane->fd);
    }
    session_.use(std::move(in_order), always_);
    return {};
}

}  // namespace rgpu::interpose
