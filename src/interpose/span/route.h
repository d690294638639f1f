// SPDX-License-Identifier: Apache-2.0
// Turns the calling thread to the server that a call is for, where the lease spans several: told
// from its parameters.
//
// The stream decides; without one the first object, then the first device, and then the first
// address of device memory. What none of these says is for the current context's server. A thread
// whose current context is of another server gets the object's for the time of the call, as a
// driver lets any thread use any object.
#pragma once

#include "calls/roles.h"
#include "interpose/mirror/addresses.h"
#include "interpose/state/servers.h"
#include "interpose/stub/stub.h"

namespace rgpu::interpose {

class Route {
public:
    Route() = default;
    ~Route();

    // What a parameter says, the most decisive first.
    enum Rank { by_stream, by_object, by_context, by_device, by_address, by_nothing };

    void object(Rank, HandleId);
    void device(CUdevice);
    void address(CUdeviceptr);
    // When all parameters were looked at. `in_order`: behind and before what the current context's
    // default stream has.
    void go(bool in_order);

private:
    struct Goal {
        unsigned server = 0;
        HandleId context = calls::kNoHandle;
    };
    void say(Rank, Goal);

    Rank rank_ = by_nothing;
    bool moves_ = false, waits_ = false;
    Goal goal_;
    At at_;
};

namespace detail {

template <calls::RoleKind Kind, class T> void look(Route &route, T arg, bool is_device)
{
    using calls::RoleKind;
    if constexpr ((Kind == RoleKind::in || Kind == RoleKind::ends) && calls::kIsHandle<T>) {
        if constexpr (std::is_same_v<T, CUstream>)
            route.object(Route::by_stream, Handles::get().id(arg).value_or(calls::kNoHandle));
        else if (arg)
            route.object(std::is_same_v<T, CUcontext> ? Route::by_context : Route::by_object,
                         Handles::get().id(arg).value_or(calls::kNoHandle));
    } else if constexpr (Kind == RoleKind::in && std::is_same_v<T, CUdevice>) {
        if (is_device) route.device(arg);
    } else if constexpr (Kind == RoleKind::in && std::is_same_v<T, CUdeviceptr>) {
        route.address(arg);
    } else if constexpr (Kind == RoleKind::in && std::is_same_v<T, CUmemLocation>) {
        if (arg.type == CU_MEM_LOCATION_TYPE_DEVICE) route.device(arg.id);
    } else if constexpr (std::is_same_v<T, const CUmemLocation *> ||
                         std::is_same_v<T, CUmemLocation *>) {
        if (arg && arg->type == CU_MEM_LOCATION_TYPE_DEVICE) route.device(arg->id);
    } else if constexpr (std::is_same_v<T, const CUlaunchConfig *>) {
        if (arg)
            route.object(Route::by_stream,
                         Handles::get().id(arg->hStream).value_or(calls::kNoHandle));
    } else if constexpr (std::is_same_v<T, const CUmemAllocationProp *> ||
                         std::is_same_v<T, const CUmemPoolProps *>) {
        if (Kind == RoleKind::ref && arg && arg->location.type == CU_MEM_LOCATION_TYPE_DEVICE)
            route.device(arg->location.id);
    }
}

}  // namespace detail

template <CallId Id, class... A> void find_route(Route &route, A... args)
{
    constexpr auto roles = calls::roles<Id>();
    constexpr calls::Facts facts = calls::Row<Id>::info.facts;
    [&]<size_t... I>(std::index_sequence<I...>)
    {
        [[maybe_unused]] const auto one = [&]<size_t N, class T>(T arg) {
            if constexpr (facts.current_only && !std::is_same_v<T, CUstream>)
                return;
            else
                detail::look<roles[N].kind>(route, arg, detail::is_device<Id, N>());
        };
        (one.template operator()<I>(args), ...);
    }
    (std::index_sequence_for<A...>());
    route.go(facts.default_order);
}

}  // namespace rgpu::interpose
