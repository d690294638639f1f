// Which GPUs of a server a request gets, and which server fits it best: pure functions.
//
// Best fit first: large holes stay whole for requests that need them. Then the GPUs that sit
// closest together, then the least loaded server.
#pragma once

#include <vector>

#include "pool/messages.h"

namespace rgpu::pool {

// The GPU is of those wanted; `cuda` is its driver's CUDA version (0: unknown, and good enough).
bool is_wanted(const GpuState &gpu, const Wanted &wanted, int cuda);

// distances[a][b]: how far GPU a is from GPU b of one server (smaller is closer, symmetric).
// Empty: nothing is known. hwloc will fill it.
using Distances = std::vector<std::vector<int>>;

struct Placement {
    Answer answer = Answer::never;
    std::string reason;          // for later and never
    std::vector<size_t> chosen;  // positions in the vector given, ascending
    Fit fit;
};

// The memory that a request takes of this GPU.
uint64_t memory_of(const GpuState &gpu, const Request &request);

Placement place(const std::vector<GpuState> &gpus, const Request &request,
                const Distances &distances = {}, int cuda = 0);

// The first should be taken rather than the second.
bool better(const Fit &a, const Fit &b);

}  // namespace rgpu::pool
