// Takes licence strings apart and puts them together again.
#include "slurm/terms/licences.h"

#include <charconv>

namespace rgpu::slurm {
namespace {

constexpr std::string_view kSeparators = ",;|";

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

unsigned long rgpu_licences(std::string_view licences)
{
    unsigned long total = 0;
    each(licences, [&](std::string_view, std::string_view name, std::string_view count) {
        unsigned long value = 0;
        if (name == "rgpu" &&
            std::from_chars(count.data(), count.data() + count.size(), value).ec == std::errc())
            total += value;
    });
    return total;
}

bool names_rgpu(std::string_view licences)
{
    bool named = false;
    each(licences, [&](std::string_view, std::string_view name, std::string_view) {
        named |= name == "rgpu";
    });
    return named;
}

Result<std::string> with_rgpu(std::string_view licences, unsigned long count)
{
    if (licences.find('|') != licences.npos)
        return error(
            ErrorKind::invalid,
            "--licenses=%.*s: alternatives cannot be had together with --gres=rgpu; ask for the "
            "licences with commas",
            static_cast<int>(licences.size()), licences.data());
    std::string out;
    each(licences, [&](std::string_view element, std::string_view name, std::string_view) {
        if (name != "rgpu") (out += out.empty() ? "" : ",") += element;
    });
    if (count != 0) (out += out.empty() ? "" : ",") += "rgpu:" + std::to_string(count);
    return out;
}

}  // namespace rgpu::slurm
