// SPDX-License-Identifier: Apache-2.0
// serve<I>: the server's handler of a table line, made from its roles. The layout of the body
// and of the answer is described in interpose/stub/stub.h, the client's half.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <tuple>
#include <utility>

#include "calls/roles.h"
#include "wire/launch_event.h"
#include "worker/calls/carried.h"
#include "worker/calls/inspected.h"
#include "worker/calls/may_launch.h"
#include "worker/driver/driver.h"
#include "worker/session/session.h"

namespace rgpu::worker {

using calls::RoleKind;
using calls::Use;

namespace detail {

template <class T> using Pointee = std::remove_const_t<std::remove_pointer_t<T>>;
template <RoleKind Kind, class T> inline constexpr bool kHandleIn =
    (Kind == RoleKind::in || Kind == RoleKind::ends) && calls::kIsHandle<T>;
template <RoleKind Kind, class T>
inline constexpr bool kHandleOut = Kind == RoleKind::out &&calls::kIsHandle<Pointee<T>>;

// One parameter while its call is served: take() decodes it, pass() is what the driver gets, give()
// encodes what the driver wrote.
template <RoleKind Kind, class T> struct Slot {
    HandleId id = 0;
    T value{};                      // in
    Pointee<T> *pointee = nullptr;  // ref, out
    bool present = false;

    CUresult take(wire::Reader &r, Session &s)
    {
        if constexpr (kHandleIn<Kind, T>) {
            id = r.value<HandleId>();
            return s.objects.get(id, value);
        } else {
            value = r.value<T>();
            return CUDA_SUCCESS;
        }
    }
    T pass(size_t) { return value; }
    void give(std::vector<uint8_t> &, size_t, Session &) {}
};

template <class T> struct Slot<RoleKind::out, T> {
    HandleId id = 0;
    Pointee<T> value{};
    bool present = false;

    CUresult take(wire::Reader &r, Session &)
    {
        if constexpr (kHandleOut<RoleKind::out, T>)
            present = (id = r.value<HandleId>()) != 0;
        else
            present = r.value<uint8_t>() != 0;
        return CUDA_SUCCESS;
    }
    T pass(size_t) { return present ? &value : nullptr; }
    void give(std::vector<uint8_t> &out, size_t, Session &s)
    {
        wire::Writer w(out);
        if constexpr (Carried<Pointee<T>>::value) {
            if (present) Carried<Pointee<T>>::encode(w, s, value);
        } else if constexpr (!kHandleOut<RoleKind::out, T>) {
            if (present) w.value(value);
        }
        (void)s, (void)w;
    }
};

template <class T> struct Slot<RoleKind::ref, T> {
    Pointee<T> value{};
    bool present = false;
    CarriedMemory memory;

    CUresult take(wire::Reader &r, Session &s)
    {
        present = r.value<uint8_t>() != 0;
        if (!present) return CUDA_SUCCESS;
        if constexpr (Carried<Pointee<T>>::value)
            return Carried<Pointee<T>>::decode(r, s, value, memory);
        else
            value = r.value<Pointee<T>>();
        if constexpr (Inspected<Pointee<T>>) return inspect(s, value);
        (void)s;
        return CUDA_SUCCESS;
    }
    T pass(size_t) { return present ? &value : nullptr; }
    void give(std::vector<uint8_t> &, size_t, Session &) {}
};

template <class T> struct Slot<RoleKind::inout, T> : Slot<RoleKind::ref, T> {
    void give(std::vector<uint8_t> &out, size_t, Session &s)
    {
        wire::Writer w(out);
        if constexpr (Carried<Pointee<T>>::value) {
            if (this->present) Carried<Pointee<T>>::encode(w, s, this->value);
        } else {
            if (this->present) w.value(this->value);
        }
        (void)s;
    }
};

template <class T> struct Slot<RoleKind::found, T> {
    Pointee<T> value{};
    bool present = false;

    CUresult take(wire::Reader &r, Session &)
    {
        present = r.value<uint8_t>() != 0;
        return CUDA_SUCCESS;
    }
    T pass(size_t) { return present ? &value : nullptr; }
    void give(std::vector<uint8_t> &out, size_t, Session &s)
    {
        if (present) wire::Writer(out).value(s.objects.number(value));
    }
};

template <class T> struct Slot<RoleKind::str, T> {
    std::string value;
    bool present = false;

    CUresult take(wire::Reader &r, Session &)
    {
        present = r.value<uint8_t>() != 0;
        if (present) value = r.string();
        return CUDA_SUCCESS;
    }
    T pass(size_t) { return present ? value.c_str() : nullptr; }
    void give(std::vector<uint8_t> &, size_t, Session &) {}
};

template <class T> struct Slot<RoleKind::in_n, T> {
    std::vector<Pointee<T>> value;
    bool present = false;

    CUresult take(wire::Reader &r, Session &s)
    {
        present = r.value<uint8_t>() != 0;
        if constexpr (calls::kIsHandle<Pointee<T>>) {
            CUresult result = CUDA_SUCCESS;
            value.resize(r.count(sizeof(HandleId)));
            for (auto &handle : value) {
                CUresult e = s.objects.get(r.value<HandleId>(), handle);
                if (!e && !handle) e = calls::invalid_handle(calls::kHandleKind<Pointee<T>>);
                if (!result) result = e;
            }
            return result;
        }
        (void)s;
        value.resize(r.count(sizeof(Pointee<T>)));
        const size_t bytes = value.size() * sizeof(Pointee<T>);
        if (const uint8_t *p = r.bytes(bytes); p && bytes) memcpy(value.data(), p, bytes);
        if constexpr (Inspected<Pointee<T>>)
            for (auto &one : value)
                if (CUresult e = inspect(s, one)) return e;
        return CUDA_SUCCESS;
    }
    // The count that the driver is told must be the count that came.
    T pass(size_t count)
    {
        value.reserve(1);  // an array of none is not no array
        return present && count == value.size() ? value.data() : nullptr;
    }
    void give(std::vector<uint8_t> &, size_t, Session &) {}
};

inline constexpr size_t kMaxOutBytes = 1 << 20;

template <class T> struct Slot<RoleKind::out_n, T> {
    std::vector<Pointee<T>> value;
    bool present = false;

    CUresult take(wire::Reader &r, Session &)
    {
        present = r.value<uint8_t>() != 0;
        return CUDA_SUCCESS;
    }
    T pass(size_t count)
    {
        if (!present || count > kMaxOutBytes / sizeof(Pointee<T>)) return nullptr;
        value.reserve(1);
        value.resize(count);
        return value.data();
    }
    void give(std::vector<uint8_t> &out, size_t, Session &)
    {
        if (present) wire::Writer(out).bytes(value.data(), value.size() * sizeof(Pointee<T>));
    }
};

template <class T> struct Slot<RoleKind::found_n, T> {
    std::vector<Pointee<T>> value;
    bool present = false;

    CUresult take(wire::Reader &r, Session &)
    {
        present = r.value<uint8_t>() != 0;
        return CUDA_SUCCESS;
    }
    T pass(size_t count)
    {
        if (!present || count > kMaxOutBytes / sizeof(Pointee<T>)) return nullptr;
        // An array of no room is another question than no array: its address is not null.
        value.reserve(count + 1);
        value.resize(count);
        return value.data();
    }
    // `count`: how many the driver says there are.
    void give(std::vector<uint8_t> &out, size_t count, Session &s)
    {
        if (!present) return;
        const size_t n = std::min(count, value.size());
        wire::Writer w(out);
        w.value(uint64_t{n});
        for (size_t i = 0; i < n; i++) w.value(s.objects.number(value[i]));
    }
};

template <class T> struct Slot<RoleKind::text, T> {
    std::string value;
    bool present = false;

    CUresult take(wire::Reader &r, Session &)
    {
        present = r.value<uint8_t>() != 0;
        return CUDA_SUCCESS;
    }
    T pass(size_t count)
    {
        if (!present || count > kMaxOutBytes) return nullptr;
        value.resize(count + 1);
        return value.data();
    }
    void give(std::vector<uint8_t> &out, size_t, Session &)
    {
        // Up to the first NUL. NOLINTNEXTLINE(readability-redundant-string-cstr)
        if (present) wire::Writer(out).string(value.c_str());
    }
};

template <class S> size_t as_count(S &slot)
{
    if constexpr (requires { static_cast<size_t>(slot.value); }) {
        if constexpr (std::is_integral_v<decltype(slot.value)>)
            return slot.value > 0 ? static_cast<size_t>(slot.value) : 0;
    }
    return 0;
}

template <CallId Id, size_t I, class Slots> size_t count_of(Slots &slots)
{
    constexpr int n = calls::roles<Id>()[I].count;
    if constexpr (n < 0)
        return 0;
    else
        return as_count(std::get<static_cast<size_t>(n)>(slots));
}

// Whether a parameter may be taken off the wire by its role at all.
template <RoleKind Kind, class T> consteval bool is_sound(const calls::Role &role)
{
    if constexpr (Kind == RoleKind::in || Kind == RoleKind::ends) {
        if constexpr (calls::kIsHandle<T>)
            return true;
        else
            return may_come<T>(role);
    } else if constexpr (Kind == RoleKind::ref || Kind == RoleKind::inout) {
        if constexpr (Carried<Pointee<T>>::value)
            return true;
        else
            return may_come<Pointee<T>>(role);
    } else if constexpr (Kind == RoleKind::in_n) {
        if constexpr (calls::kIsHandle<Pointee<T>>)
            return true;
        else
            return may_come<Pointee<T>>(role);
    }
    return Kind != RoleKind::host && Kind != RoleKind::own;
}

template <class T> uint64_t as_number(T v)
{
    if constexpr (std::is_pointer_v<T>)
        return reinterpret_cast<uint64_t>(v);
    else
        return static_cast<uint64_t>(v);
}

// The bytes of a row that parameter I is the address of. False where there are none so many.
template <CallId Id, size_t I, class Slots> bool width_of(Slots &slots, uint64_t &bytes)
{
    constexpr calls::Role role = calls::roles<Id>()[I];
    bytes = 1;
    if constexpr (role.count >= 0) bytes = count_of<Id, I>(slots);
    if constexpr (role.element >= 0)
        return !__builtin_mul_overflow(
            bytes, sizeof(std::get<static_cast<size_t>(role.element)>(slots).value), &bytes);
    return true;
}

// Whether parameter I is a number of the session's, where it has to be.
template <CallId Id, size_t I, class Slots>
CUresult may_use([[maybe_unused]] Session &s, [[maybe_unused]] Slots &slots)
{
    constexpr calls::Role role = calls::roles<Id>()[I];
    if constexpr (role.kind == RoleKind::in && calls::is_looked_up(role.use)) {
        const uint64_t number = as_number(std::get<I>(slots).value);
        uint64_t bytes = 0;
        if (!width_of<Id, I>(slots, bytes)) return CUDA_ERROR_INVALID_VALUE;
        bool has = false;
        if constexpr (role.use == Use::mem && role.pitch >= 0)
            has = s.addresses.has_rows(number, bytes,
                                       as_count(std::get<static_cast<size_t>(role.pitch)>(slots)),
                                       as_count(std::get<static_cast<size_t>(role.height)>(slots)));
        else if constexpr (role.use == Use::mem)
            has = s.addresses.has(number, bytes);
        else if constexpr (role.use == Use::frees)
            has = !number || s.addresses.has(number, 1);
        else if constexpr (role.use == Use::token || role.use == Use::token_end)
            has = s.addresses.has(role.token, number);
        else
            has = s.addresses.has_reserved(number, bytes);
        if (!has) return CUDA_ERROR_INVALID_VALUE;
        if constexpr (role.use == Use::frees)
            s.addresses.take(number);  // whatever becomes of the call
    }
    return CUDA_SUCCESS;
}

// What the call has changed.
template <CallId Id, size_t I, class Slots>
void note_use([[maybe_unused]] Session &s, [[maybe_unused]] Slots &slots)
{
    constexpr calls::Role role = calls::roles<Id>()[I];
    if constexpr (calls::is_looked_up(role.use)) {
        auto &slot = std::get<I>(slots);
        const uint64_t number = as_number(slot.value);
        uint64_t bytes = 0;
        if (!width_of<Id, I>(slots, bytes)) return;
        if constexpr (role.kind == RoleKind::out)
            if (!slot.present) return;
        if constexpr (role.use == Use::gives)
            s.addresses.give(number, bytes, Addresses::Life::linear);
        if constexpr (role.use == Use::maps)
            s.addresses.give(number, bytes, Addresses::Life::lasting);
        if constexpr (role.use == Use::unmaps) s.addresses.take(number, bytes);
        if constexpr (role.use == Use::reserves) s.addresses.reserve(number, bytes);
        if constexpr (role.use == Use::unreserves) s.addresses.unreserve(number);
        if constexpr (role.use == Use::token_out) s.addresses.give(role.token, number);
        if constexpr (role.use == Use::token_end) s.addresses.take(role.token, number);
    }
}

// An attribute whose value is an event's handle: the value alone does not say so, and nobody has
// put the driver's handle there.
template <class... Slots> bool names_event(const Slots &...slots)
{
    [[maybe_unused]] const auto is_one = [](const auto &slot) {
        if constexpr (requires { slot.value; })
            if constexpr (std::is_same_v<std::remove_cvref_t<decltype(slot.value)>,
                                         CUlaunchAttributeID>) {
                CUlaunchAttribute a{};
                a.id = slot.value;
                return wire::event_of(a) != nullptr;
            }
        return false;
    };
    return (is_one(slots) || ... || false);
}

template <CallId Id, class... A, size_t... I>
Result<void> serve(Session &s, Call &call, CUresult (*function)(A...), std::index_sequence<I...>)
{
    [[maybe_unused]] constexpr auto roles = calls::roles<Id>();
    static_assert((is_sound<roles[I].kind, A>(roles[I]) && ...),
                  "a parameter that nobody holds a client to: see worker/calls/inspected.h");
    std::tuple<Slot<roles[I].kind, A>...> slots;
    CUresult result = CUDA_SUCCESS;
    [[maybe_unused]] auto take = [&](auto &slot) {
        CUresult r = slot.take(call.body, s);
        if (r && !result) result = r;
    };
    (take(std::get<I>(slots)), ...);
    if (!call.body.at_end()) return misfit();
    if (!function) result = CUDA_ERROR_NOT_SUPPORTED;
    if (!result && names_event(std::get<I>(slots)...)) result = CUDA_ERROR_NOT_SUPPORTED;
    if (!result) (void)(((result = may_use<Id, I>(s, slots)) == CUDA_SUCCESS) && ...);
    if (!result) {
        [[maybe_unused]] const MayLaunch<Id> turn(s, std::get<I>(slots)...);
        result = function(std::get<I>(slots).pass(count_of<Id, I>(slots))...);
    }

    std::vector<uint8_t> answer;
    if (result) {
        [[maybe_unused]] auto give = [&]<RoleKind Kind, class T>(Slot<Kind, T> &slot) {
            if constexpr ((Kind == RoleKind::out || Kind == RoleKind::inout) &&
                          Carried<Pointee<T>>::on_failure)
                slot.give(answer, 0, s);
        };
        (give.template operator()<roles[I].kind, A>(std::get<I>(slots)), ...);
    } else {
        [[maybe_unused]] auto give = [&](auto &slot, size_t count, RoleKind kind) {
            slot.give(answer, count, s);
            if constexpr (requires { slot.id; }) {
                if (kind == RoleKind::ends) s.objects.end(slot.id);
                if constexpr (calls::kIsHandle<decltype(slot.value)>)
                    if (kind == RoleKind::out && slot.present &&
                        !s.objects.set(slot.id, slot.value))
                        result = CUDA_ERROR_INVALID_VALUE;
            }
        };
        (give(std::get<I>(slots), count_of<Id, I>(slots), roles[I].kind), ...);
        (note_use<Id, I>(s, slots), ...);
    }
    s.finish(call, result, answer);
    return {};
}

}  // namespace detail

template <CallId Id> Result<void> serve(Session &s, Call &call)
{
    using Function = typename calls::Row<Id>::Function;
    constexpr size_t n = calls::detail::Arity<Function>::value;
    return detail::serve<Id>(s, call, driver().call<Id>(), std::make_index_sequence<n>());
}

}  // namespace rgpu::worker
