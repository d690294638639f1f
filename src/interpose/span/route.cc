// SPDX-License-Identifier: Apache-2.0
#include "interpose/span/route.h"

#include "interpose/state/process.h"
#include "interpose/stub/by_hand.h"

namespace rgpu::interpose {

void Route::say(Rank rank, Goal goal)
{
    if (rank >= rank_) return;
    rank_ = rank;
    goal_ = goal;
    moves_ = goal.server != here();
}

void Route::object(Rank rank, HandleId id)
{
    if (id < calls::kFirstHandle) {
        // A default stream is the current context's.
        if (rank == by_stream) say(rank, {here(), calls::kNoHandle});
        return;
    }
    const uint8_t server = Handles::get().at(id)->server;
    if (server != kEverywhere)
        say(rank, {server, rank == by_context ? calls::kNoHandle : context_of(id)});
}

void Route::device(CUdevice d)
{
    if (d >= 0 && static_cast<size_t>(d) < program_devices().size())
        say(by_device, {server_of(d), calls::kNoHandle});
}

void Route::address(CUdeviceptr address)
{
    if (by_address >= rank_) return;
    const auto owner = owner_of_address(address);
    if (!owner) return;
    say(by_address, {owner->server, owner->context});
}

void Route::go(bool in_order)
{
    if (!moves_) return;
    waits_ = in_order && rank_ != by_stream;
    if (waits_ && current_context()) own::cuStreamSynchronize(nullptr);
    at_.go(goal_.server, current_context() ? goal_.context : calls::kNoHandle);
}

// What comes next in the current context's default stream may look at the memory.
Route::~Route()
{
    if (waits_)
        guard("the end of a call for another server",
              [] { return own::cuStreamSynchronize(nullptr); });
}

}  // namespace rgpu::interpose
