// SPDX-License-Identifier: Apache-2.0
// Reads GRES lists and the values of our own options.
#include "slurm/terms/request.h"

#include <algorithm>
#include <cctype>
#include <charconv>

#include "util/next_token.h"
#include "util/units.h"

namespace rgpu::slurm {
namespace {

constexpr unsigned kMaxGpus = 1'000'000;  // on one node; far past any real pool, far from overflow

Error invalid(std::string text) { return Error{ErrorKind::invalid, std::move(text)}; }

std::string quoted(std::string_view text)
{
    constexpr size_t kLongest = 80;
    return "'" + std::string(text.substr(0, kLongest)) + (text.size() > kLongest ? "...'" : "'");
}

// All of text as a number, or nothing.
std::optional<uint64_t> number(std::string_view text)
{
    uint64_t value = 0;
    const char *end = text.data() + text.size();
    auto [stop, ec] = std::from_chars(text.data(), end, value);
    if (text.empty() || ec != std::errc() || stop != end) return {};
    return value;
}

// Slurm's counts may carry k, m or g, powers of 1024.
std::optional<uint64_t> gres_count(std::string_view text)
{
    unsigned shift = 0;
    if (!text.empty()) {
        switch (text.back()) {
        case 'k':
        case 'K': shift = 10; break;
        case 'm':
        case 'M': shift = 20; break;
        case 'g':
        case 'G': shift = 30; break;
        }
    }
    if (shift != 0) text.remove_suffix(1);
    auto value = number(text);
    if (!value || *value > kMaxGpus) return value;
    return *value << shift;
}

// A word that could be a part of a GPU's name; numbers are counts.
bool is_type(std::string_view text)
{
    auto good = [](char c) {
        return isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '-' || c == '.';
    };
    return !text.empty() && isalpha(static_cast<unsigned char>(text[0])) &&
           std::all_of(text.begin(), text.end(), good);
}

// What one element of the list asks for; count 0 where it is not ours.
Result<TresGpus> gpus_in_element(std::string_view element, std::string_view gres)
{
    std::string_view rest = element;
    if (rest.starts_with("gres:") || rest.starts_with("gres/")) rest.remove_prefix(5);
    if (next_token(rest, ":=") != gres) return TresGpus{};
    TresGpus out{1, {}};
    if (is_type(rest.substr(0, rest.find_first_of(":=")))) out.type = next_token(rest, ":=");
    if (rest.empty()) return out;
    auto count = gres_count(rest);
    if (!count)
        return invalid(quoted(element) +
                       " is not understood; ask with --gres=rgpu:N or --gres=rgpu:TYPE:N");
    if (*count > kMaxGpus)
        return invalid(quoted(element) + " is more than any pool has; ask with --gres=rgpu:N");
    out.count = static_cast<unsigned>(*count);
    return out;
}

}  // namespace

Result<TresGpus> gpus_in_tres(std::string_view tres, std::string_view gres)
{
    TresGpus total;
    for (bool first = true; !tres.empty();) {
        auto gpus = gpus_in_element(next_token(tres, ",;"), gres);
        if (!gpus) return gpus.error();
        if (gpus->count == 0) continue;
        if (!first && gpus->type != total.type)
            return invalid("GPUs of several types were asked for; a job has one type of GPU, and "
                           "the parts of a heterogeneous job "
                           "(srun ... : ...) one each");
        first = false;
        total.type = gpus->type;
        total.count += gpus->count;
        if (total.count > kMaxGpus) return invalid("more GPUs than any pool has were asked for");
    }
    return total;
}

Result<Share> parse_share(std::string_view text)
{
    auto wrong = [&] {
        return invalid(
            "--rgpu-share=" + std::string(text.substr(0, 80)) +
            ": give a percentage of a GPU from 1 to 100, as in --rgpu-share=50, or the least "
            "(0 to 100) and the most, as in --rgpu-share=30-100");
    };
    std::string_view rest = text;
    auto percent = [&](unsigned low) -> std::optional<unsigned> {
        std::string_view token = next_token(rest, "-");
        if (token.ends_with('%')) token.remove_suffix(1);
        auto value = number(token);
        if (!value || *value < low || *value > 100) return {};
        return static_cast<unsigned>(*value);
    };
    bool range = text.find('-') != text.npos;
    auto least = percent(range ? 0 : 1);
    auto most = range ? percent(1) : least;
    if (!least || !most || *most < *least || !rest.empty()) return wrong();
    return Share{*least, *most};
}

Result<uint64_t> parse_memory(std::string_view text)
{
    // A number alone would be bytes here and megabytes in Slurm's --mem: nobody means the former.
    if (number(text))
        return invalid("--rgpu-mem=" + std::string(text.substr(0, 80)) +
                       ": the unit is missing; give the memory of each GPU as in --rgpu-mem=8G or "
                       "--rgpu-mem=512M");
    auto bytes = parse_size(text);
    if (!bytes) return std::move(bytes).error().in("--rgpu-mem");
    if (*bytes == 0)
        return invalid("--rgpu-mem: 0 is no memory; give that of each GPU, as in --rgpu-mem=8G");
    return *bytes;
}

std::string option_variable(std::string_view option)
{
    std::string name(option);
    std::replace(name.begin(), name.end(), '-', '_');
    return "_SLURM_SPANK_OPTION_rgpu_" + name;
}

std::string memory_text(uint64_t bytes)
{
    constexpr const char *units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
    unsigned unit = 0;
    while (unit + 1 < std::size(units) && bytes != 0 && bytes % 1024 == 0) {
        bytes /= 1024;
        ++unit;
    }
    return std::to_string(bytes) + " " + units[unit];
}

}  // namespace rgpu::slurm
