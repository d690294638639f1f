// SPDX-License-Identifier: Apache-2.0
// cuGetProcAddress's rules over the table: an index by base name, made at the first question.
#include "calls/versions.h"

#include <algorithm>
#include <array>

namespace rgpu::calls {

namespace {

struct Variant {
    std::string_view base;
    int since = 0;
    bool per_thread = false;
    uint16_t id = 0;
};

const std::array<Variant, kCallCount> &index()
{
    static const std::array<Variant, kCallCount> sorted = [] {
        std::array<Variant, kCallCount> a;
        for (size_t i = 0; i < kCallCount; i++) {
            std::string_view s = kCalls[i].symbol;
            a[i] = {base_name(s), kCalls[i].since, is_per_thread(s), static_cast<uint16_t>(i)};
        }
        std::sort(a.begin(), a.end(), [](const Variant &x, const Variant &y) {
            return x.base != y.base ? x.base < y.base : x.since < y.since;
        });
        return a;
    }();
    return sorted;
}

}  // namespace

std::string_view base_name(std::string_view symbol)
{
    if (is_per_thread(symbol)) symbol.remove_suffix(kPerThreadSuffix);
    size_t v = symbol.rfind("_v");
    if (v == symbol.npos || v + 2 == symbol.size()) return symbol;
    bool digits = symbol.find_first_not_of("0123456789", v + 2) == symbol.npos;
    return digits ? symbol.substr(0, v) : symbol;
}

Lookup find(std::string_view name, int cuda_version, cuuint64_t flags, int driver_version,
            bool (*has)(CallId))
{
    const bool per_thread = flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
    const Variant *best = nullptr;
    bool known = false;
    auto begin = std::lower_bound(index().begin(), index().end(), name,
                                  [](const Variant &v, std::string_view n) { return v.base < n; });
    for (auto v = begin; v != index().end() && v->base == name; ++v) {
        if (v->since > driver_version || (has && !has(static_cast<CallId>(v->id)))) continue;
        known = true;
        if (v->since > cuda_version || (v->per_thread && !per_thread)) continue;
        // Later in the index is newer; at one version the per-thread variant wins if asked for.
        if (!best || v->per_thread || !best->per_thread) best = v;
    }
    if (best) return {CU_GET_PROC_ADDRESS_SUCCESS, static_cast<CallId>(best->id)};
    return {known ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
                  : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND,
            {}};
}

}  // namespace rgpu::calls
