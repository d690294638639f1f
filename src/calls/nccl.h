// SPDX-License-Identifier: Apache-2.0
// The functions of NCCL and their parameters, from nccl.def. All of shim, client and worker read
// these lines; nccl.h is not needed.
//
// A function's parameters are a text, one letter each, in their order:
//
//   c  a communicator                   e  one that the call ends
//   N  where a new one goes             A  where k new ones go
//   i  an int                           p  a rank (root, peer, own): an int, checked
//   z  how many elements                t  their type
//   o  a reduction operator             O  where a new one goes
//   x  a stream
//   s  memory to read, z elements       S  ... z elements for each rank
//   d  memory to write, z elements      D  ... z elements for each rank
//   b  memory to read and write, z elements
//   a  as s, where p is this rank       q  as S, where p is this rank
//   r  as d, where p is this rank       G  as D, where p is this rank
//   B  memory of w bytes                w  bytes
//   H  where the number of a registered buffer goes     h  such a number
//   u  an ncclUniqueId by value         Y  where one goes
//   U  a list of k of them              l  a list of k ints, which may be null
//   k  how long lists are: an int
//   f  an ncclConfig_t, which may be null
//   v  a scalar of type t: in host memory where the next int is 1, else on the device
//   I  where an int goes                V  ... that is a device
//   L  where 64 bits go
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace rgpu::calls {

enum class NcclWay { grouped, once, here, none };

struct NcclFunction {
    std::string_view name, parameters;
    NcclWay way = NcclWay::none;

    // At which place a letter stands; npos: nowhere.
    size_t place(char letter) const { return parameters.find(letter); }
    bool has(char letter) const { return place(letter) != std::string_view::npos; }
};

// The version of what libnccl.so.2 hands to libcuda.so.1, which knows no other.
inline constexpr uint32_t kNcclEntryVersion = 1;

// By name; null where there is none.
const NcclFunction *find_nccl(std::string_view name);
// All of them, for tests.
size_t nccl_count();
const NcclFunction &nccl_at(size_t);

// As many parameters as a function has at most; an ncclUniqueId by value is one.
inline constexpr size_t kMostNcclParameters = 8;

// nccl.h's numbers.
enum NcclResult : int {
    kNcclSuccess = 0,
    kNcclUnhandledCudaError = 1,
    kNcclSystemError = 2,
    kNcclInternalError = 3,
    kNcclInvalidArgument = 4,
    kNcclInvalidUsage = 5,
    kNcclRemoteError = 6,
    kNcclInProgress = 7,
    kNcclTimeout = 8,
};
constexpr const char *nccl_error_string(int result)
{
    switch (result) {
    case kNcclSuccess: return "no error";
    case kNcclUnhandledCudaError:
        return "unhandled cuda error (run with NCCL_DEBUG=INFO for details)";
    case kNcclSystemError: return "unhandled system error (run with NCCL_DEBUG=INFO for details)";
    case kNcclInternalError:
        return "internal error - please report this issue to the NCCL developers";
    case kNcclInvalidArgument: return "invalid argument (run with NCCL_DEBUG=WARN for details)";
    case kNcclInvalidUsage: return "invalid usage (run with NCCL_DEBUG=WARN for details)";
    case kNcclRemoteError: return "remote process exited or there was a network error";
    case kNcclInProgress: return "NCCL operation in progress";
    case kNcclTimeout: return "operation timed out";
    default: return "unknown result code";
    }
}

struct NcclUniqueId {
    char bytes[128];
};

// Bytes of an ncclDataType_t; 0: there is no such type.
constexpr size_t nccl_type_bytes(int type)
{
    constexpr uint8_t bytes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
    return type >= 0 && static_cast<size_t>(type) < sizeof bytes ? bytes[type] : 0;
}

// Operators below are NCCL's own: sum, product, maximum, minimum, average. Those that programs make
// have numbers from here on.
inline constexpr int kFirstNcclOperator = 5;
inline constexpr int kNcclSplitNoColor = -1;

// ncclConfig_t of NCCL 2.31, which is the longest that is known: older ones are its beginning. Its
// pointers are texts that travel beside it.
inline constexpr size_t kNcclConfigBytes = 120;
inline constexpr size_t kNcclLeastConfigBytes = 32;             // up to and with maxCTAs
inline constexpr size_t kNcclNetName = 32, kNcclCommName = 48;  // where these pointers are
inline constexpr size_t kMostNcclText = 256;
inline constexpr size_t kNcclBlocking = 16;  // where that int is

// How long lists may be: ranks, or unique ids.
inline constexpr int kMostNcclList = 4096;

// Whether a variable NCCL_... of the program's environment is one that reaches the server's NCCL.
// None of them names a file, a library or a network interface.
bool nccl_variable(std::string_view name);
// Whether such a variable may have that value.
bool nccl_value(std::string_view value);

}  // namespace rgpu::calls
