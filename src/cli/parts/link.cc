// SPDX-License-Identifier: Apache-2.0
#include "cli/parts/link.h"

#include <algorithm>

#include "util/defaults.h"
#include "util/link_time.h"

namespace rgpu::cli {

// Round numbers of the kind that a profiler shows on a data-centre GPU, so that sites can compare;
// not of one program.
const std::vector<Profile> kProfiles = {
    {"training a large network", 120, 1, 3000, 1, 0.01},
    {"training a network of a few layers", 2, 2, 150, 0.5, 0.01},
    {"inference, one request at a time", 6, 2, 400, 0.6, 0.01},
    {"token by token, one wait for each", 15, 1, 800, 0.001, 0.001},
    {"simulation that looks at each step", 1, 4, 20, 0.01, 0.1},
    {"streaming data through small kernels", 5, 4, 20, 64, 64},
};

// What these cost on a GPU in the machine.
constexpr double kLocalWaitUs = kLocalPace.round_trip * 1e6, kLocalPostUs = 2,
                 kLocalGBps = 1e-9 / kLocalPace.up;

Latency latency_of(std::vector<double> us)
{
    if (us.empty()) return {};
    std::sort(us.begin(), us.end());
    auto at = [&](double part) {
        return us[std::min(us.size() - 1,
                           static_cast<size_t>(part * static_cast<double>(us.size())))];
    };
    return {at(0.5), at(0.9), at(0.99), us.back()};
}

static double step_ms(const Profile &p, double wait_us, double post_us, double to_gpu,
                      double from_gpu)
{
    const double waits = p.waits * wait_us / 1e3, posts = p.posts * post_us / 1e3;
    const double copies = p.to_gpu / to_gpu + p.from_gpu / from_gpu;
    // What is posted is carried out while more is posted: of the two, the longer counts. Waits and
    // copies come on top.
    return std::max(p.gpu_ms, posts) + waits + copies;
}

static std::pair<double, double> best(const Link &link)
{
    double to_gpu = 0, from_gpu = 0;
    for (const Bandwidth &b : link.bandwidth)
        to_gpu = std::max(to_gpu, b.to_gpu), from_gpu = std::max(from_gpu, b.from_gpu);
    return {to_gpu, from_gpu};
}

bool packing_pays(const Link &link)
{
    const auto [to_gpu, from_gpu] = best(link);
    return std::min(to_gpu, from_gpu) * 1e9 < static_cast<double>(defaults::kSlowLink);
}

double slow_down(const Profile &profile, const Link &link)
{
    const auto [to_gpu, from_gpu] = best(link);
    const double here = step_ms(profile, link.call.p50, link.post, to_gpu, from_gpu);
    const double local = step_ms(profile, kLocalWaitUs, kLocalPostUs, kLocalGBps, kLocalGBps);
    return std::max(1.0, here / local);
}

std::string verdict(const Link &link)
{
    size_t good = 0;
    for (const Profile &profile : kProfiles) good += slow_down(profile, link) <= 1.10;
    if (good == kProfiles.size())
        return "Excellent: no kind of program below loses more than a tenth.";
    if (slow_down(kProfiles[0], link) > 1.10)
        return "Poor: even programs with long kernels lose more than a tenth. Look at the network "
               "first (rgpu health).";
    return "Good for " + std::to_string(good) + " of the " + std::to_string(kProfiles.size()) +
           " kinds of programs below; the others lose more than a tenth.";
}

}  // namespace rgpu::cli
