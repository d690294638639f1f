// SPDX-License-Identifier: Apache-2.0
#include "pool/ledger/span.h"

#include <algorithm>

#include "pool/ledger/placement.h"

namespace rgpu::pool {
namespace {

// Puts smaller choices in place of larger ones, as long as no more than `excess` GPUs are lost by
// it. `left` are those that were not taken, the largest first. Returns what is left of the excess.
int shrink(std::vector<size_t> &taken, std::vector<size_t> left, const std::vector<Choice> &choices,
           int excess)
{
    for (auto member = taken.rbegin(); member != taken.rend(); ++member) {
        const int has = choices[*member].gpus;
        auto smallest = left.end();
        for (auto other = left.begin();
             other != left.end() && choices[*other].gpus >= std::max(1, has - excess); ++other)
            if (smallest == left.end() || choices[*other].gpus < choices[*smallest].gpus)
                smallest = other;
        if (smallest == left.end() || choices[*smallest].gpus >= has) continue;
        excess -= has - choices[*smallest].gpus;
        *member = *smallest;
        left.erase(smallest);
    }
    return excess;
}

}  // namespace

std::vector<Part> parts_for(int gpus, const std::vector<Choice> &choices)
{
    std::vector<size_t> order;
    for (size_t i = 0; i < choices.size(); ++i)
        if (choices[i].gpus > 0) order.push_back(i);
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
        return choices[a].gpus != choices[b].gpus ? choices[a].gpus > choices[b].gpus
                                                  : better(choices[a].fit, choices[b].fit);
    });
    size_t count = 0;
    int sum = 0;
    while (sum < gpus && count < order.size()) sum += choices[order[count++]].gpus;
    if (sum < gpus) return {};
    std::vector<size_t> taken(order.begin(), order.begin() + static_cast<long>(count));
    int excess = sum - gpus;
    if (count > 1)
        excess =
            shrink(taken, {order.begin() + static_cast<long>(count), order.end()}, choices, excess);
    // What is too much stays where the largest hole is. Every server is needed: none of them has
    // nothing then.
    auto holes = [&](size_t a, size_t b) {
        return choices[a].fit.whole_left < choices[b].fit.whole_left;
    };
    const size_t trimmed = *std::max_element(taken.begin(), taken.end(), holes);
    std::sort(taken.begin(), taken.end());
    std::vector<Part> parts;
    for (size_t i : taken) parts.push_back({i, choices[i].gpus - (i == trimmed ? excess : 0)});
    return parts;
}

std::vector<Grant> whole_request(const std::vector<Grant> &grants)
{
    for (const Grant &first : grants) {
        if (first.lease.span.id.empty()) return {first};
        std::vector<Grant> all;
        size_t gpus = 0;
        for (const Grant &grant : grants)
            if (grant.lease.span.id == first.lease.span.id) {
                all.push_back(grant);
                gpus += grant.lease.gpus.size();
            }
        if (gpus == static_cast<size_t>(first.lease.span.gpus)) return all;
    }
    return {};
}

}  // namespace rgpu::pool
