// SPDX-License-Identifier: Apache-2.0
// Takes licence strings apart and puts them together again.
#include "slurm/terms/licences.h"

#include "slurm/terms/number.h"

namespace rgpu::slurm {
namespace {

constexpr std::string_view kSeparators = ",;|", kSum = "rgpu", kTyped = "rgpu_";

bool is_ours(std::string_view name)
{
    return name == kSum || (name.starts_with(kTyped) && name.size() > kTyped.size());
}

// Calls see(whole element, name, count text) for each licence in the list.
template <class See> void each(std::string_view licences, See &&see)
{
    while (!licences.empty()) {
        size_t end = licences.find_first_of(kSeparators);
        std::string_view element = licences.substr(0, end);
        licences = end == licences.npos ? std::string_view{} : licences.substr(end + 1);
        if (element.empty()) continue;
        size_t name_end = element.find_first_of("@:*=");
        size_t count_at = element.find_last_of(":*=");
        see(element, element.substr(0, name_end),
            count_at == element.npos ? std::string_view{"1"} : element.substr(count_at + 1));
    }
}

}  // namespace

unsigned long licences_for(unsigned gpus, unsigned share, unsigned nodes)
{
    return static_cast<unsigned long>(gpus) * (share ? share : 1) * nodes;
}

OwnLicences own_licences(std::string_view licences)
{
    OwnLicences out;
    each(licences, [&](std::string_view, std::string_view name, std::string_view count) {
        if (name == kSum)
            out.sum += number_of(count);
        else if (const unsigned long value = is_ours(name) ? number_of(count) : 0)
            out.types[std::string(name.substr(kTyped.size()))] += value;
    });
    return out;
}

OwnLicences all_of_types(unsigned long sum, const std::vector<std::string> &types)
{
    OwnLicences out{sum, {}};
    if (sum != 0)
        for (const std::string &type : types) out.types[type] = sum;
    return out;
}

std::vector<std::string> types_sold(std::string_view licences)
{
    std::vector<std::string> out;
    each(licences, [&](std::string_view, std::string_view name, std::string_view) {
        if (is_ours(name) && name != kSum) out.emplace_back(name.substr(kTyped.size()));
    });
    return out;
}

std::string to_text(const OwnLicences &own)
{
    std::string out = own.sum ? std::string(kSum) + ":" + std::to_string(own.sum) : "";
    for (const auto &[type, count] : own.types)
        if (count != 0)
            (out += out.empty() ? "" : ",") += std::string(kTyped) + type + ":" +
                                               std::to_string(count);
    return out;
}

unsigned long rgpu_licences(std::string_view licences) { return own_licences(licences).sum; }

bool names_rgpu(std::string_view licences)
{
    bool named = false;
    each(licences, [&](std::string_view, std::string_view name, std::string_view) {
        named |= is_ours(name);
    });
    return named;
}

Result<std::string> with_rgpu(std::string_view licences, const OwnLicences &own)
{
    if (licences.find('|') != licences.npos)
        return error(
            ErrorKind::invalid,
            "--licenses=%.*s: alternatives cannot be had together with --gres=rgpu; ask for the "
            "licences with commas",
            static_cast<int>(licences.size()), licences.data());
    std::string out;
    each(licences, [&](std::string_view element, std::string_view name, std::string_view) {
        if (!is_ours(name)) (out += out.empty() ? "" : ",") += element;
    });
    const std::string ours = to_text(own);
    return out + (out.empty() || ours.empty() ? "" : ",") + ours;
}

}  // namespace rgpu::slurm
