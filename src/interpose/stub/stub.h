// SPDX-License-Identifier: Apache-2.0
// remote<I>(arguments...): the client stub of a table line, made from its roles.
//
// Body of a call, parameter by parameter: in = the value (a handle as its number), ref and inout =
// present byte and value, out and found = present byte (a handle that is made: its number), in_n =
// present byte, count and values, out_n, found_n and text = present byte, str = present byte and
// string. Body of its answer: the values written, in order; found = number, found_n = count and
// numbers. Structs with handles or pointers in them are written by carried.h. The server's half is
// worker/calls/serve.h.
#pragma once

#include <array>
#include <tuple>
#include <type_traits>
#include <utility>

#include "calls/roles.h"
#include "interpose/state/capture.h"
#include "interpose/state/family.h"
#include "interpose/state/process.h"
#include "interpose/state/servers.h"
#include "interpose/stub/carried.h"

namespace rgpu::interpose {

// The calling thread's own default stream in its current context, made at first use.
CUresult thread_stream(HandleId &id);

using calls::CallId;
using calls::Mode;
using calls::RoleKind;

namespace detail {

template <class T> using Pointee = std::remove_const_t<std::remove_pointer_t<T>>;

constexpr bool is_read(RoleKind k) { return k == RoleKind::ref || k == RoleKind::inout; }
constexpr bool is_written(RoleKind k) { return k == RoleKind::out || k == RoleKind::inout; }

// One parameter of one call: how it goes out and how its answer comes back.
template <RoleKind Kind, class T> struct Param {
    static constexpr bool handle_in = (Kind == RoleKind::in || Kind == RoleKind::ends) &&
                                      calls::kIsHandle<T>;
    static constexpr bool handle_out = Kind == RoleKind::out && calls::kIsHandle<Pointee<T>>;
    static constexpr bool host = Kind == RoleKind::host || Kind == RoleKind::own;
    static constexpr bool carried = (is_read(Kind) || is_written(Kind)) &&
                                    Carried<Pointee<T>>::value;
    static constexpr bool on_failure = [] {
        if constexpr (carried && is_written(Kind)) return Carried<Pointee<T>>::on_failure;
        return false;
    }();
};

// Handles of a call's parameters as numbers; 0 where the parameter is no handle.
template <size_t N> using Ids = std::array<HandleId, N>;

// The number of a handle that is passed; CU_STREAM_PER_THREAD becomes this thread's stream.
template <class T> CUresult id_in(T handle, HandleId &id)
{
    auto found = Handles::get().id(handle);
    if (!found) return calls::invalid_handle(calls::kHandleKind<T>);
    id = *found;
    if (!is_here(id)) return calls::invalid_handle(calls::kHandleKind<T>);
    if constexpr (std::is_same_v<T, CUstream>)
        if (handle == CU_STREAM_PER_THREAD) return thread_stream(id);
    return CUDA_SUCCESS;
}

template <RoleKind Kind, class T>
CUresult resolve(T arg, HandleId &id, std::vector<uint8_t> &carried)
{
    using P = Param<Kind, T>;
    if constexpr (P::handle_in) {
        // Told at once: posted, it would surface at a call that has nothing to do with it.
        constexpr bool null_is_one = std::is_same_v<T, CUstream> || std::is_same_v<T, CUcontext>;
        if (!arg && (Kind == RoleKind::ends || !null_is_one))
            return calls::invalid_handle(calls::kHandleKind<T>);
        return id_in(arg, id);
    }
    if constexpr (P::handle_out) {
        if (!arg) return CUDA_ERROR_INVALID_VALUE;
        id = Handles::get().make(calls::kHandleKind<Pointee<T>>, current_context());
        if (!id) return CUDA_ERROR_OUT_OF_MEMORY;
    }
    if constexpr (P::carried && is_read(Kind))
        if (arg) return Carried<Pointee<T>>::encode(*arg, carried);
    return CUDA_SUCCESS;
}

// The numbers of an array of handles; 0, which the server refuses, for what is none.
template <class T> void write_handles(wire::Writer &w, const T *handles, size_t count)
{
    for (size_t i = 0; i < count; i++)
        w.value(Handles::get().id(handles[i]).value_or(calls::kNoHandle));
}

template <RoleKind Kind, class T>
void write(wire::Writer &w, T arg, HandleId id, size_t count, const std::vector<uint8_t> &carried)
{
    using P = Param<Kind, T>;
    if constexpr (P::host) {
        static_assert(!P::host, "calls/table: host and own parameters need hand-written code");
    } else if constexpr (P::handle_in || P::handle_out) {
        w.value(id);
    } else if constexpr (Kind == RoleKind::in || Kind == RoleKind::ends) {
        w.value(arg);
    } else {
        w.value(uint8_t{arg != nullptr});
        if constexpr (P::carried && is_read(Kind)) {
            if (arg) w.bytes(carried.data(), carried.size());
        } else if constexpr (is_read(Kind)) {
            if (arg) w.value(for_wire(*arg));
        } else if constexpr (Kind == RoleKind::str) {
            if (arg) w.string(arg);
        } else if constexpr (Kind == RoleKind::in_n) {
            w.value(uint64_t{arg ? count : 0});
            if constexpr (calls::kIsHandle<Pointee<T>>) {
                if (arg) write_handles(w, arg, count);
            } else if constexpr (kNamesDevice<Pointee<T>>) {
                for (size_t i = 0; arg && i < count; i++) w.value(for_wire(arg[i]));
            } else {
                if (arg) w.bytes(arg, count * sizeof *arg);
            }
        }
    }
}

// A handle that the server named, as one of `owner`'s where it is part of a graph.
template <class T> T found(HandleId id, HandleId owner)
{
    const T handle = Handles::get().named<T>(id, current_context());
    if (handle && owner) belongs(*Handles::get().id(handle), owner);
    return handle;
}

template <RoleKind Kind, class T>
void read(wire::Reader &r, T arg, HandleId id, size_t count, HandleId self, HandleId owner)
{
    using P = Param<Kind, T>;
    if constexpr (P::handle_out) {
        *arg = Handles::get().handle<Pointee<T>>(id);
        if constexpr (std::is_same_v<T, CUgraphNode *>) belongs(id, owner);
    } else if constexpr (Kind == RoleKind::found) {
        if (arg) *arg = found<Pointee<T>>(r.value<HandleId>(), owner);
    } else if constexpr (Kind == RoleKind::found_n) {
        if (!arg) return;
        const size_t n = r.count(sizeof(HandleId));
        for (size_t i = 0; i < count; i++)
            arg[i] = i < n ? found<Pointee<T>>(r.value<HandleId>(), owner) : nullptr;
        for (size_t i = count; i < n; i++) r.value<HandleId>();
    } else if constexpr (P::carried && is_written(Kind)) {
        if (arg) Carried<Pointee<T>>::decode(r, *arg, self);
    } else if constexpr (is_written(Kind)) {
        if (arg) *arg = for_program(r.value<Pointee<T>>());
    } else if constexpr (Kind == RoleKind::out_n) {
        if (const uint8_t *p = arg ? r.bytes(count * sizeof *arg) : nullptr)
            memcpy(arg, p, count * sizeof *arg);
    } else if constexpr (Kind == RoleKind::text) {
        if (!arg) return;
        std::string_view s = r.string();
        if (!count) return;
        size_t n = std::min(s.size(), count - 1);
        memcpy(arg, s.data(), n);
        arg[n] = 0;
    }
}

template <class T> size_t as_count(T v)
{
    if constexpr (std::is_integral_v<T>) return v > 0 ? static_cast<size_t>(v) : 0;
    if constexpr (std::is_pointer_v<T> && std::is_integral_v<Pointee<T>>)
        return v ? static_cast<size_t>(*v) : 0;
    return 0;
}

// The number of elements of parameter I, from the parameter that its role names.
template <CallId Id, size_t I, class Args> size_t count_of(const Args &args)
{
    constexpr int n = calls::roles<Id>()[I].count;
    if constexpr (n < 0)
        return 0;
    else
        return as_count(std::get<static_cast<size_t>(n)>(args));
}

// Whether parameter I is a device's number.
template <CallId Id, size_t I> consteval bool is_device()
{
    return calls::roles<Id>()[I].use == calls::Use::device;
}

// Of all arrays of a call: frames are limited.
inline constexpr size_t kMostElements = wire::kMaxCallBytes / 64;

// Posted calls that name neither an object nor a device work in the current context.
template <CallId Id> consteval bool wants_context()
{
    for (const calls::Role &role : calls::roles<Id>())
        if (role.use == calls::Use::device) return false;
    return calls::Row<Id>::info.mode == Mode::post;
}

// What a call is about: the graph that a new or found node belongs to, and the object whose
// parameters are asked for.
template <class T> HandleId graph_of(T, [[maybe_unused]] HandleId id)
{
    if constexpr (std::is_same_v<T, CUgraph>) return id;
    if constexpr (std::is_same_v<T, CUgraphNode>) return owner_of(id);
    return calls::kNoHandle;
}

template <CallId Id, Mode mode, class... A, size_t... I>
CUresult call(std::tuple<A...> args, std::index_sequence<I...>)
{
    constexpr auto roles = calls::roles<Id>();
    ServerSession *s = session();
    if (!s) return not_ready();
    if (spanning())
        ((std::get<I>(args) =
              [](A arg) {
                  if constexpr (is_device<Id, I>())
                      return to_wire(arg);
                  else
                      return arg;
              }(std::get<I>(args))),
         ...);

    Ids<sizeof...(A)> ids{};
    std::vector<uint8_t> carried;
    CUresult result = CUDA_SUCCESS;
    // Handles that are made, until the server has made what they stand for.
    Unless made([&] {
        ((Param<roles[I].kind, A>::handle_out ? Handles::get().end(ids[I]) : void()), ...);
    });
    (void)((result = resolve<roles[I].kind>(std::get<I>(args), ids[I], carried),
            result == CUDA_SUCCESS) &&
           ...);
    if (result != CUDA_SUCCESS) return result;
    // Told at once, as by a driver: posted, it would surface at a call that has nothing to do with
    // it.
    if constexpr (wants_context<Id>())
        if (CUresult r = context_state();
            r && !((Param<roles[I].kind, A>::handle_in && ids[I] >= calls::kFirstHandle) || ...))
            return r;
    // The stream that the call is about, and what a capture says to that.
    [[maybe_unused]] HandleId stream = 0;
    if constexpr ((std::is_same_v<A, CUstream> || ...)) {
        ((stream = std::is_same_v<A, CUstream> ? ids[I] : stream), ...);
        if (mode == Mode::post)
            if ((result = may_give_work(stream))) return result;
    }
    // What the program says, whatever the answer writes to where it says so.
    const std::array<size_t, sizeof...(A)> counts{count_of<Id, I>(args)...};
    // More than a frame holds are counts that no program means.
    if (((roles[I].kind == RoleKind::in_n ? counts[I] : 0) + ... + 0) > kMostElements)
        return CUDA_ERROR_INVALID_VALUE;
    auto body = [&](wire::Writer &w) {
        (write<roles[I].kind>(w, std::get<I>(args), ids[I], counts[I], carried), ...);
        (void)w;
    };
    Reply reply;
    if constexpr (mode == Mode::post)
        result = s->post(Id, current_context(), body);
    else
        result = s->ask(Id, current_context(), body, reply);
    if (result == CUDA_SUCCESS) made.keep();
    if constexpr ((std::is_same_v<A, CUstream> || ...)) note_capture_result(stream, result);
    // The first parameter that is a handle, and the first that leads to a graph.
    HandleId self = 0, owner = 0;
    ((self = self ? self : Param<roles[I].kind, A>::handle_in ? ids[I] : 0), ...);
    if constexpr (((std::is_same_v<A, CUgraphNode *> || std::is_same_v<A, CUgraph *>) || ...))
        ((owner = owner ? owner : graph_of(std::get<I>(args), ids[I])), ...);
    wire::Reader r(reply.body.data(), reply.body.size());
    [[maybe_unused]] auto take = [&]<RoleKind Kind, class T>(T arg, HandleId id, size_t count) {
        if (result == CUDA_SUCCESS || (Param<Kind, T>::on_failure && r.left()))
            read<Kind>(r, arg, id, count, self, owner);
    };
    (take.template operator()<roles[I].kind>(std::get<I>(args), ids[I], counts[I]), ...);
    if (result != CUDA_SUCCESS) return result;
    ((roles[I].kind == RoleKind::ends ? Handles::get().end(ids[I]) : void()), ...);
    return r.at_end() ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN;
}

template <CallId Id, Mode mode, class F> struct Typed;
template <CallId Id, Mode mode, class... A> struct Typed<Id, mode, CUresult (*)(A...)> {
    static CUresult run(A... args)
    {
        return call<Id, mode>(std::tuple<A...>(args...), std::index_sequence_for<A...>());
    }
};

// Whether a line answers nothing but its result.
template <CallId Id> consteval bool answers_nothing()
{
    for (const calls::Role &role : calls::roles<Id>())
        if (role.kind != RoleKind::in && role.kind != RoleKind::ref) return false;
    return true;
}

}  // namespace detail

// Carries the call out on the server.
template <CallId Id, class... A> CUresult remote(A... args)
{
    using Row = calls::Row<Id>;
    return detail::Typed<Id, Row::info.mode, typename Row::Function>::run(args...);
}

// The same without waiting, of a line that is asked: its caller knows that it will succeed. Should
// it fail all the same, a later call says so.
template <CallId Id, class... A> CUresult remote_posted(A... args)
{
    static_assert(detail::answers_nothing<Id>());
    return detail::Typed<Id, Mode::post, typename calls::Row<Id>::Function>::run(args...);
}

}  // namespace rgpu::interpose
