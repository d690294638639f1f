// SPDX-License-Identifier: Apache-2.0
// Further TCP connections of one client ("lanes") that carry the bytes of large copies beside the
// one of its calls (net/transport/laned_transport.h).
//
// The frames stay one stream. Behind a client's word that lanes begin, and the worker's answer,
// that stream travels in records: on the first connection a Record for each, and on it, or on the
// lane that it names, its bytes.
#pragma once

#include <cstddef>
#include <cstdint>

namespace rgpu::wire {

// A call number that is none of the table's. Body: LanesCall. With lanes, the stream to the worker
// has so many from the next byte on, the one to the client behind the reply. Without, it asks for
// the number (u64, the reply's body) by which lanes find this worker; a worker that takes none says
// 0.
inline constexpr uint16_t kLanesCall = 0xfff6;

struct LanesCall {
    uint32_t lanes = 0;
    uint32_t always =
        0;  // 1: the worker shall use them also where they are no faster than one connection
};
static_assert(sizeof(LanesCall) == 8);

inline constexpr size_t kMostLanes = 16;

// What a worker says on a lane once it has it: which one it is, from 0.
using LanePlace = uint32_t;

struct Record {
    uint32_t bytes = 0;  // of the stream, not 0
    uint32_t lane = 0;   // they follow here, or come on lane number lane - 1
};
static_assert(sizeof(Record) == 8);

}  // namespace rgpu::wire
