// SPDX-License-Identifier: Apache-2.0
#include "interpose/link/server_session.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

#include "calls/handles.h"
#include "interpose/base/stats.h"
#include "wire/lanes.h"

namespace rgpu::interpose {

namespace {

using namespace std::chrono_literals;

// Hello and its answer, the proof and the snapshot (wire/hello.h), and TCP's own.
constexpr double kHandshakeTrips = 3;

}  // namespace

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

double ServerSession::time_of_question()
{
    Answer answer;
    const double begin = Forecaster::now();
    calls_.put(
        static_cast<calls::CallId>(wire::kLanesCall), calls::kNoHandle,
        [](wire::Writer &w) { w.value(wire::LanesCall()); }, {}, answer);
    answers_.wait_uncounted(answer);
    return Forecaster::now() - begin;
}

void ServerSession::use(std::unique_ptr<Forecaster> forecaster, bool by_lanes)
{
    constexpr size_t kQuestions = 15;
    constexpr double kLongest = 0.1;  // seconds
    constexpr auto kRest = 300us;     // after which both ends sleep
    const double begin = Forecaster::now();
    const auto median_of = [&](std::chrono::microseconds rest) {
        std::vector<double> took;
        while (took.size() < kQuestions && (took.empty() || Forecaster::now() - begin < kLongest)) {
            if (rest.count()) std::this_thread::sleep_for(rest);
            took.push_back(time_of_question());
        }
        std::nth_element(took.begin(), took.begin() + static_cast<ptrdiff_t>(took.size() / 2),
                         took.end());
        return took[took.size() / 2];
    };
    if (by_lanes) {
        time_of_question();
        const double warm = median_of(0us), cold = median_of(kRest);
        forecaster->learn_floor(warm, std::max(warm, cold));
        Forecaster::spent(Forecaster::now() - begin);
    }
    forecaster->connected(kHandshakeTrips);
    forecaster_ = std::move(forecaster);
    reader_.use(*forecaster_);
    announcements_.use(*forecaster_);
    answers_.use(*forecaster_);
    calls_.use(*forecaster_);
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
    if (!copies_under_way()) return;
    const double since = forecaster_ ? Forecaster::now() : 0;
    while (copies_under_way() && !state())
        std::this_thread::sleep_for(Pump::kDelay);  // the pump takes them
    if (forecaster_) forecaster_->waited_for_copies(since);
}

}  // namespace rgpu::interpose
