// SPDX-License-Identifier: Apache-2.0
// A function of NVML that the server's NVML answers (calls/nvml.def): asked on the data stream with
// a frame of type kNvmlCall.
//
//   body     name (string), device (u32, in the snapshot's order), then for each parameter:
//            v u64 · p u32, a device · s u32, the room · o and x the bytes · a u32, the room
//            f u32, how many, and their bytes; x is u32, the size, and the bytes
//   answer   NVML's result (u32), then for each parameter but v and p:
//            s string · o and x the bytes · a u32, how many there are, and u32, how many follow,
//            with their bytes · f the bytes
//
// What is behind the result is there for kNvmlSuccess, and for a list that had too little room.
#pragma once

#include <cstdint>

namespace rgpu::wire {

inline constexpr uint16_t kNvmlCall = 0xfff7;

}  // namespace rgpu::wire
