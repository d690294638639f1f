// SPDX-License-Identifier: Apache-2.0
#include "interpose/link/connect.h"

#include <cerrno>
#include <chrono>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "calls/calls.h"
#include "calls/handles.h"
#include "interpose/base/addresses.h"
#include "interpose/base/forecasting.h"
#include "interpose/base/log.h"
#include "interpose/base/stats.h"
#include "interpose/link/lanes.h"
#include "interpose/link/packing.h"
#include "interpose/link/packing_agreement.h"
#include "interpose/link/transport_choice.h"
#include "net/handshake/data_connection.h"
#include "net/transport/pacing.h"
#include "wire/bands.h"
#include "wire/frame.h"
#include "wire/snapshot.h"

namespace rgpu::interpose {

namespace {

using namespace std::chrono_literals;
using wire::FrameHeader;
using wire::ServerFrame;

constexpr auto kConnectTimeout = 10s;

// Addresses that a process can have, and not so many that the program would lack them.
bool is_sane(const wire::Snapshot &s)
{
    constexpr uint64_t kPage = 4096, kEnd = uint64_t{1} << 47, kMost = uint64_t{1} << 44;
    if (!s.device_size) return true;
    return s.device_size <= kMost && s.device_base <= kEnd - s.device_size &&
           s.device_base % kPage == 0 && s.device_size % kPage == 0;
}

// Through shared memory and over UCX nobody expects it.
void say_unpacked(const std::string &server, std::string_view transport)
{
    if (transport == "tls")
        say("copies to and from %s go unpacked: the connection is encrypted, and their sizes would "
            "tell of what is in them",
            server.c_str());
    else if (transport == "tcp")
        say("copies to and from %s go unpacked: its version of rgpu knows no compression",
            server.c_str());
}

// What the server says of itself, once the connection stands.
Result<std::vector<uint8_t>> read_snapshot(int fd, net::Deadline deadline)
{
    FrameHeader h;
    if (auto r = net::receive_all(fd, &h, sizeof h, deadline); !r) return std::move(r).error();
    if (h.type != static_cast<uint16_t>(ServerFrame::snapshot) || h.bytes > wire::kMaxServerBytes)
        return error(ErrorKind::invalid, "unexpected answer instead of a snapshot");
    if (h.value != CUDA_SUCCESS)
        return error(ErrorKind::unavailable, "the server's driver does not start (CUDA error %u)",
                     h.value);
    std::vector<uint8_t> body(h.bytes);
    if (auto r = net::receive_all(fd, body.data(), body.size(), deadline); !r)
        return std::move(r).error();
    return body;
}

// Has the session's frames packed, from when the server agrees.
void use_packing(ServerSession &s, PackingAgreement::Wanted wanted)
{
    auto packing = std::make_unique<Packing>(PackingAgreement::is_method(wanted));
    Packing &used = *packing;
    const auto agreement = std::make_shared<PackingAgreement>(s, used, wanted);
    used.when_link_changes([agreement] { agreement->agree_later(); });
    s.use(std::move(packing));
    agreement->agree_now();
}

// Has further connections opened once large copies have carried enough.
void use_lanes(ServerSession &s, const LeaseServer &server, std::optional<size_t> count)
{
    const auto lanes = std::make_shared<Lanes>(s, server, count);
    s.large_copies().call_at(lanes->worth_it(), [lanes] { lanes->begin(); });
}

}  // namespace

Result<ServerSession *> connect(const LeaseServer &server, uint32_t index)
{
    using Wanted = PackingAgreement::Wanted;
    auto choice = TransportChoice::wanted();
    if (!choice) return std::move(choice).error();
    const auto packing = PackingAgreement::wanted();
    if (!packing) return packing.error();
    const auto lanes = Lanes::wanted();
    if (!lanes) return lanes.error();
    auto connection = net::connect_data(server.address, server.lease, server.secret,
                                        calls::table_digest(), kConnectTimeout,
                                        [&] { say_waiting(server); });
    if (!connection) return std::move(connection).error();
    const auto deadline = net::Clock::now() + kConnectTimeout;
    const int fd = connection->fd.get();
    const bool takes_packed = connection->takes_packed, takes_lanes = connection->takes_lanes,
               takes_band = connection->takes_band, takes_placed = connection->takes_placed,
               takes_linked = connection->takes_linked, takes_pools = connection->takes_pools,
               takes_nccl = connection->takes_nccl, far = !net::on_one_host(fd);

    if (auto r = choice->offer(*connection, deadline); !r) return std::move(r).error();
    const auto body = read_snapshot(fd, deadline);
    if (!body) return body.error();
    auto settled = choice->settle(*connection, deadline);
    if (!settled) return std::move(settled).error();
    std::unique_ptr<net::Transport> transport = std::move(*settled);
    const char *const name = transport->name();
    const std::string_view transport_name = name;
    note_transport(name);

    auto s = std::make_unique<ServerSession>(std::move(transport),
                                             server.name + " (" + server.address + ")",
                                             !far && transport_name == "tcp");
    auto snapshot = wire::decode_snapshot(body->data(), body->size());
    if (!snapshot) return std::move(snapshot).error();
    if (!is_sane(*snapshot))
        return error(ErrorKind::invalid,
                     "the server's snapshot names addresses that no program has");
    readdress(*snapshot, server.gpus);
    s->learn(std::move(*snapshot));
    if (takes_packed && transport_name == "tcp" && *packing != Wanted::off)
        use_packing(*s, *packing);
    else if (PackingAgreement::is_method(*packing))
        say_unpacked(s->server(), transport_name);
    if (s->takes_lanes() && takes_lanes && (*lanes ? **lanes > 1 : far))
        use_lanes(*s, server, *lanes);
    else if (s->takes_lanes() && lanes->value_or(1) > 1)
        say_alone(s->server(), transport_name == "tls" ? "it is encrypted"
                                                       : "its version of rgpu knows no more");
    s->set_takes_placed(takes_placed, takes_pools);
    s->set_takes_linked(takes_linked);
    s->set_takes_nccl(takes_nccl);
    if (takes_band && index)
        s->tell(static_cast<calls::CallId>(wire::kBandCall), calls::kNoHandle,
                [&](wire::Writer &w) { w.value(index); });
    if (counting_to_file()) s->use(std::make_unique<Forecaster>(), takes_lanes);
    // Never deleted: cudart calls the driver after static destructors ran.
    ServerSession *const open = s.release();
    open->start_pump();
    return open;
}

}  // namespace rgpu::interpose
