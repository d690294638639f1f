// SPDX-License-Identifier: Apache-2.0
// Calls of NCCL that the server's NCCL carries out (calls/nccl.def): one, or all of a group, asked
// with a frame of type kNcclCall. Every frame is answered.
//
//   body     u32 count of variables, each a string NAME=value; u8 1 where the calls are a group;
//            u32 count of calls, and for each its name (string), the number of the calling thread's
//            context (u32), and its parameters by their letters:
//            i p t k   i32                     z w h   u64
//            c e N o O x   u32, a number       s S d D b a q r G B   u64, an address
//            A         u32 count, a u32 each   l   u8 whether it is there, u32 count, an i32 each
//            u         128 bytes               U   u32 count, 128 bytes each
//            f         u8 whether it is there, u32 bytes, the bytes with null pointers, and two
//                      texts (u8 whether it is there, string): netName, commName
//            v         u64, the scalar's bytes or its address
//            Y H I V L have nothing
//   answer   i32 result, string what NCCL or the server says of an error, then for each call, where
//            the result is ncclSuccess or ncclInProgress:
//            N   u8 whether there is one       A   u8 each
//            I V   i32       H L   u64         Y   128 bytes
//
// Communicators and operators have numbers that the client chooses, each once: from 1 on, and from
// calls::kFirstNcclOperator on.
#pragma once

#include <cstdint>

namespace rgpu::wire {

inline constexpr uint16_t kNcclCall = 0xffed;

// Of one frame. The first two are what the server takes.
inline constexpr uint32_t kMostNcclVariables = 128;
inline constexpr uint32_t kMostNcclCalls = 16384;

}  // namespace rgpu::wire
