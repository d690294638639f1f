// SPDX-License-Identifier: Apache-2.0
#include "interpose/link/server_session.h"

#include <cstring>
#include <thread>

#include "interpose/base/stats.h"

namespace rgpu::interpose {

ServerSession::ServerSession(std::unique_ptr<net::Transport> transport, std::string server,
                             bool one_host)
    : one_host_(one_host), connection_(std::move(transport), std::move(server))
{}

void ServerSession::learn(wire::Snapshot snapshot)
{
    snapshot_ = std::move(snapshot);
    calls_.learn(snapshot_);
    images.learn(snapshot_);
}

void ServerSession::use(std::unique_ptr<Packing> packing)
{
    packing_ = std::move(packing);
    reader_.use(*packing_);
    announcements_.use(*packing_);
    calls_.use(*packing_);
}

void ServerSession::set_one_of_several(unsigned index, CallBuffer::ContextThere context_there)
{
    connection_.set_one_of_several();
    calls_.set_one_of_several(index, context_there);
}

void ServerSession::use(std::vector<net::OwnSocket> lanes, bool always)
{
    const size_t count = lanes.size();
    Answer answer;
    calls_.begin_lanes(std::move(lanes), always, answer);
    if (answers_.wait(answer) == CUDA_SUCCESS) note_connections(count + 1);
}

CUresult ServerSession::take_ahead(Ahead &a, Reply &reply)
{
    answers_.wait_ahead(a.answer());
    reply = std::move(a.answer().reply);
    return reply.result;
}

CUresult ServerSession::take_ahead(Ahead &a, void *to)
{
    answers_.wait_ahead(a.answer());
    const CUresult r = a.answer().reply.result;
    if (!r) memcpy(to, a.bytes().data(), a.bytes().size());
    return r;
}

void ServerSession::expect_callbacks(size_t n, CallbackDue due)
{
    callback_due_.store(due, std::memory_order_release);
    announcements_.expect(n);
}

// Calls that wait for the GPU may answer what another one lacked.
bool ServerSession::makes_room(calls::SentCall id, uint32_t context, unsigned times)
{
    const auto call = static_cast<calls::CallId>(id);
    return make_room_ && static_cast<size_t>(call) < calls::kCallCount &&
           calls::info(call).mode == calls::Mode::ask && make_room_(*this, context, times);
}

void ServerSession::due(uint64_t token, uint32_t status)
{
    if (const CallbackDue due = callback_due_.load(std::memory_order_acquire))
        due(*this, token, status);
}

void ServerSession::wait_for_copies()
{
    while (copies_under_way() && !state())
        std::this_thread::sleep_for(Pump::kDelay);  // the pump takes them
}

}  // namespace rgpu::interpose
