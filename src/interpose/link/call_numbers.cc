// SPDX-License-Identifier: Apache-2.0
#include "interpose/link/call_numbers.h"

#include <array>
#include <atomic>
#include <unordered_map>

#include "interpose/base/log.h"

namespace rgpu::interpose {

void CallNumbers::learn(const wire::Snapshot &theirs)
{
    symbols_.insert(theirs.calls.begin(), theirs.calls.end());
    numbers_.clear();
    if (theirs.calls.empty()) return;
    std::unordered_map<std::string_view, uint16_t> by_name;
    for (size_t i = 0; i < theirs.calls.size(); i++)
        if (theirs.served[i]) by_name[theirs.calls[i]] = static_cast<uint16_t>(i);
    for (const calls::CallInfo &c : calls::kCalls) {
        const auto it = by_name.find(c.symbol);
        numbers_.push_back(it == by_name.end() ? kNone : it->second);
    }
}

bool CallNumbers::has(calls::CallId id) const
{
    std::string_view symbol = calls::info(id).symbol;
    if (symbols_.empty() || symbols_.contains(symbol)) return true;
    if (!calls::is_per_thread(symbol)) return false;
    symbol.remove_suffix(5);
    return symbols_.contains(symbol);
}

void say_unserved(calls::CallId id)
{
    static std::array<std::atomic<bool>, calls::kCallCount> said{};
    if (!said[static_cast<size_t>(id)].exchange(true))
        say("%s answers CUDA_ERROR_NOT_SUPPORTED: the GPU server runs another version of rgpu, "
            "which does not carry it out",
            calls::info(id).symbol.data());
}

}  // namespace rgpu::interpose
