// SPDX-License-Identifier: Apache-2.0
// The server's numbers of calls, where its table is another version's.
//
// Learned once, before the first call; any thread reads.
#pragma once

#include <cstdint>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "calls/calls.h"
#include "wire/snapshot.h"

namespace rgpu::interpose {

class CallNumbers {
public:
    static constexpr uint16_t kNone = 0xffff;

    // From then on the server's are those of its snapshot, which outlives this; before, and where
    // it names no calls, they are ours.
    void learn(const wire::Snapshot &);

    // The server's number of a call, or kNone where it does not carry the call out. Numbers behind
    // our table's end are the wire's own, and stay.
    uint16_t of(calls::CallId id) const
    {
        const auto ours = static_cast<uint16_t>(id);
        return ours < numbers_.size() ? numbers_[ours] : ours;
    }
    // Whether the server's table has this line, carried out or not; a per-thread line is carried
    // out as its plain one.
    bool has(calls::CallId id) const;

private:
    std::vector<uint16_t> numbers_;                 // ours -> the server's; empty when equal
    std::unordered_set<std::string_view> symbols_;  // of the server's table
};

// Tells the user, once for each call, that the server does not carry it out.
void say_unserved(calls::CallId id);

}  // namespace rgpu::interpose
