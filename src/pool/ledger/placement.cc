// SPDX-License-Identifier: Apache-2.0
#include "pool/ledger/placement.h"

#include <algorithm>
#include <cctype>
#include <climits>
#include <cstdio>
#include <tuple>

#include "util/driver_release.h"
#include "util/format.h"

namespace rgpu::pool {
namespace {

// Small: taking the GPU leaves little behind, so that emptier GPUs stay whole.
std::tuple<int, uint64_t> tightness(const GpuState &gpu)
{
    return {gpu.free_share, gpu.free_memory};
}

int distance(const Distances &distances, size_t a, size_t b)
{
    return a < distances.size() && b < distances[a].size() ? distances[a][b] : 0;
}

int spread(const std::vector<size_t> &set, const Distances &distances)
{
    int sum = 0;
    for (size_t i = 0; i < set.size(); ++i)
        for (size_t j = i; j < set.size(); ++j) sum += distance(distances, set[i], set[j]);
    return sum;
}

// Adds the candidate nearest to all of `set` until it has `count`.
std::vector<size_t> grow(std::vector<size_t> set, std::vector<size_t> candidates, size_t count,
                         const Distances &distances)
{
    while (set.size() < count) {
        auto cost = [&](size_t candidate) {
            int sum = distance(distances, candidate, candidate);
            for (size_t member : set) sum += distance(distances, candidate, member);
            return sum;
        };
        auto nearest = std::min_element(candidates.begin(), candidates.end(),
                                        [&](size_t a, size_t b) { return cost(a) < cost(b); });
        set.push_back(*nearest);
        candidates.erase(nearest);
    }
    return set;
}

// `count` of the candidates, which are in order of preference. Those that fit equally well as
// the last one needed are chosen among by distance: a greedy set from each start, the best kept.
std::vector<size_t> choose(const std::vector<GpuState> &gpus, const std::vector<size_t> &candidates,
                           size_t count, const Distances &distances)
{
    auto edge = tightness(gpus[candidates[count - 1]]);
    std::vector<size_t> fixed, equal;
    for (size_t candidate : candidates) {
        if (tightness(gpus[candidate]) < edge)
            fixed.push_back(candidate);
        else if (tightness(gpus[candidate]) == edge)
            equal.push_back(candidate);
    }
    if (distances.empty()) {
        fixed.insert(fixed.end(), equal.begin(),
                     equal.begin() + static_cast<long>(count - fixed.size()));
        return fixed;
    }
    std::vector<size_t> best;
    int least = INT_MAX;
    for (size_t i = 0; i < equal.size(); ++i) {
        std::vector<size_t> set = fixed, rest = equal;
        set.push_back(equal[i]);
        rest.erase(rest.begin() + static_cast<long>(i));
        set = grow(std::move(set), std::move(rest), count, distances);
        int sum = spread(set, distances);
        if (sum < least) {
            least = sum;
            best = std::move(set);
        }
    }
    return best;
}

// The GPUs that would do if nobody held anything.
int fitting(const std::vector<GpuState> &gpus, const Request &request, const DriverVersions &driver)
{
    return static_cast<int>(std::count_if(gpus.begin(), gpus.end(), [&](const GpuState &gpu) {
        return fits_filter(gpu, request.filter, driver) && gpu.memory >= request.memory;
    }));
}

// Why the server could not give it even if nobody held anything; empty if it could. To a span one
// GPU is enough to give.
std::string why_never(const std::vector<GpuState> &gpus, const Request &request,
                      const DriverVersions &driver)
{
    const size_t wanted = request.span.empty() ? static_cast<size_t>(request.gpus) : 1;
    std::string are_wanted = std::to_string(request.gpus) +
                             (request.gpus == 1 ? " is wanted" : " are wanted");
    if (gpus.size() < wanted) return "it has " + counted(gpus.size(), "GPU") + ", " + are_wanted;
    if (const std::string &least = request.filter.driver; is_older_release(driver.release, least))
        return (driver.release.empty() ? "its driver's release is not known"
                                       : "its driver is " + driver.release) +
               ", " + least + " or newer is wanted";
    size_t large = 0, right = 0;
    uint64_t largest = 0;
    for (const GpuState &gpu : gpus) {
        if (!fits_filter(gpu, request.filter, driver)) continue;
        ++right;
        large += gpu.memory >= request.memory;
        largest = std::max(largest, gpu.memory);
    }
    if (right < wanted)
        return std::to_string(right) + " of its " + counted(gpus.size(), "GPU") +
               " are of the kind that is asked for, " + are_wanted;
    if (large >= wanted) return "";
    return std::to_string(large) + " of its " + counted(gpus.size(), "GPU") + " have " +
           format_size(request.memory) + " of memory (the largest has " + format_size(largest) +
           "), " + are_wanted;
}

Fit fit_of(const std::vector<GpuState> &gpus, const std::vector<size_t> &chosen,
           const Request &request, const Distances &distances)
{
    Fit fit;
    int used = 0;
    for (const GpuState &gpu : gpus) {
        used += kWholeGpu - gpu.free_share;
        if (!gpu.drained.empty()) continue;
        fit.whole_left += gpu.free_share == kWholeGpu;
        fit.share_left += gpu.free_share;
    }
    for (size_t i : chosen) fit.whole_taken += gpus[i].free_share == kWholeGpu;
    fit.whole_left -= fit.whole_taken;
    fit.share_left -= request.share * static_cast<int>(chosen.size());
    fit.distance = spread(chosen, distances);
    fit.load = used / static_cast<int>(gpus.size());
    return fit;
}

}  // namespace

uint64_t memory_of(const GpuState &gpu, const Request &request)
{
    if (request.memory) return request.memory;
    // Whole hundredths first: no product overflows, and the parts never exceed the whole.
    return gpu.memory / kWholeGpu * static_cast<uint64_t>(request.share) +
           gpu.memory % kWholeGpu * static_cast<uint64_t>(request.share) / kWholeGpu;
}

bool fits_filter(const GpuState &gpu, const GpuFilter &filter, const DriverVersions &driver)
{
    auto holds = [&](const std::string &part) {
        auto same = [](char a, char b) {
            return tolower(static_cast<unsigned char>(a)) == tolower(static_cast<unsigned char>(b));
        };
        return std::search(gpu.name.begin(), gpu.name.end(), part.begin(), part.end(), same) !=
               gpu.name.end();
    };
    int major = 0, minor = 0;
    bool known = sscanf(gpu.compute_capability.c_str(), "%d.%d", &major, &minor) == 2;
    return (filter.names.empty() || std::any_of(filter.names.begin(), filter.names.end(), holds)) &&
           (filter.uuids.empty() ||
            std::find(filter.uuids.begin(), filter.uuids.end(), gpu.uuid) != filter.uuids.end()) &&
           gpu.memory >= filter.memory &&
           (!filter.compute_capability ||
            (known && major * 10 + minor >= filter.compute_capability)) &&
           (!driver.cuda || driver.cuda >= filter.cuda) &&
           !is_older_release(driver.release, filter.driver);
}

const char *name(Policy policy)
{
    const char *names[] = {"best-fit", "worst-fit", "first-fit"};
    return names[static_cast<int>(policy)];
}

std::optional<Policy> policy_named(std::string_view wanted)
{
    for (Policy policy : {Policy::best_fit, Policy::worst_fit, Policy::first_fit})
        if (wanted == name(policy)) return policy;
    return std::nullopt;
}

Placement place(const std::vector<GpuState> &gpus, const Request &request,
                const Distances &distances, const DriverVersions &driver, Policy policy)
{
    Placement placement;
    placement.reason = why_never(gpus, request, driver);
    if (!placement.reason.empty()) return placement;
    if (!request.span.empty()) placement.fitting = fitting(gpus, request, driver);

    std::vector<size_t> candidates;
    for (size_t i = 0; i < gpus.size(); ++i)
        if (gpus[i].drained.empty() && fits_filter(gpus[i], request.filter, driver) &&
            gpus[i].free_share >= request.share &&
            gpus[i].free_memory >= memory_of(gpus[i], request))
            candidates.push_back(i);
    auto count = static_cast<size_t>(request.gpus);
    if (!request.span.empty() && !candidates.empty()) count = std::min(count, candidates.size());
    if (candidates.size() < count) {
        placement.answer = Answer::later;
        placement.reason = std::to_string(candidates.size()) + " of its " +
                           counted(gpus.size(), "GPU") + " have enough free now, " +
                           std::to_string(count) + (count == 1 ? " is wanted" : " are wanted");
        auto drained = std::count_if(gpus.begin(), gpus.end(),
                                     [](const GpuState &gpu) { return !gpu.drained.empty(); });
        if (drained) placement.reason += " (" + std::to_string(drained) + " drained)";
        return placement;
    }
    auto tighter = [&](size_t a, size_t b) { return tightness(gpus[a]) < tightness(gpus[b]); };
    if (policy == Policy::best_fit)
        std::stable_sort(candidates.begin(), candidates.end(), tighter);
    else if (policy == Policy::worst_fit)
        std::stable_sort(candidates.begin(), candidates.end(),
                         [&](size_t a, size_t b) { return tighter(b, a); });
    placement.answer = Answer::now;
    if (policy == Policy::best_fit)
        placement.chosen = choose(gpus, candidates, count, distances);
    else
        placement.chosen.assign(candidates.begin(), candidates.begin() + static_cast<long>(count));
    std::sort(placement.chosen.begin(), placement.chosen.end());
    placement.fit = fit_of(gpus, placement.chosen, request, distances);
    return placement;
}

bool better(const Fit &a, const Fit &b, Policy policy)
{
    if (policy == Policy::first_fit) return false;
    if (policy == Policy::worst_fit)
        return std::make_tuple(a.whole_left, a.share_left) >
               std::make_tuple(b.whole_left, b.share_left);
    auto order = [](const Fit &fit) {
        return std::make_tuple(!fit.here, fit.whole_taken, fit.whole_left, fit.share_left,
                               fit.distance, fit.load);
    };
    return order(a) < order(b);
}

}  // namespace rgpu::pool
