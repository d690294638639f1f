// SPDX-License-Identifier: Apache-2.0
// What the way to a GPU costs a program: measured through libcuda.so.1 itself, and what follows
// from it.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "util/result.h"
#include "util/units.h"

namespace rgpu::cli {

// Of one kind of call, in microseconds.
struct Latency {
    double p50 = 0, p90 = 0, p99 = 0, most = 0;
};
Latency latency_of(std::vector<double> microseconds);

struct Bandwidth {
    size_t bytes = 0;
    double to_gpu = 0, from_gpu = 0;  // GB/s, of pinned memory
};

struct Link {
    std::string gpu;
    std::optional<Latency>
        tcp;          // connecting to the server: one round trip of the network, and little else
    Latency call;     // a copy of 4 bytes to the host: a call that must wait for the GPU
    double post = 0;  // microseconds that the program spends on a call that need not wait
    std::vector<Bandwidth> bandwidth;  // by size
};

// With the first GPU that this process's libcuda.so.1 has. `tell` hears what is being done. Fails
// with `unavailable`, naming the call, where there is none.
Result<Link> measure_link(void (*tell)(const char *what));

// Connects to host:port again and again.
inline constexpr int kConnects = 60;
Result<Latency> measure_tcp(const std::string &address, Milliseconds timeout,
                            int connects = kConnects);

// A kind of program: what one step of it asks of the GPU and of the link.
struct Profile {
    const char *what;
    double gpu_ms;            // the kernels of one step
    double waits;             // calls a step that wait for an answer
    double posts;             // calls that do not
    double to_gpu, from_gpu;  // MB a step
};
extern const std::vector<Profile> kProfiles;

// How much longer a step takes over this link than on a GPU of the same kind in the machine; 1 is
// not at all.
double slow_down(const Profile &profile, const Link &link);

// Whether copies that shrink are faster packed, as compression = "auto" in rgpu.conf has it.
bool packing_pays(const Link &link);

// One sentence: what the link is good for.
std::string verdict(const Link &link);

}  // namespace rgpu::cli
