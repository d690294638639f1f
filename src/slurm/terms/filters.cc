// SPDX-License-Identifier: Apache-2.0
// The rows of filter options, and their parsers.
#include "slurm/terms/filters.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "util/driver_release.h"
#include "util/units.h"

namespace rgpu::slurm {
namespace {

constexpr size_t kMostValues = 64;  // of one option: what is more is a mistake
constexpr size_t kLongest = 4096;   // of a value; servers take requests of some times as much

// "8.0": major and minor, each a plain number, the minor of one digit.
std::optional<std::pair<int, int>> version(std::string_view text)
{
    int major = 0, minor = 0;
    const char *end = text.data() + text.size();
    auto [dot, bad] = std::from_chars(text.data(), end, major);
    if (bad != std::errc() || major < 1 || major > 99 || dot == end || *dot != '.' ||
        end - dot != 2)
        return {};
    auto [stop, worse] = std::from_chars(dot + 1, end, minor);
    return worse == std::errc() && stop == end && minor >= 0
               ? std::optional(std::pair(major, minor))
               : std::nullopt;
}

Error no_version(std::string_view text, const char *example)
{
    return error(ErrorKind::invalid, "\"%.*s\" is no version: write it like %s",
                 static_cast<int>(std::min<size_t>(text.size(), 80)), text.data(), example);
}

// "a,b" into two; each must have something in it.
Result<void> add_list(std::string_view text, std::vector<std::string> &out)
{
    for (size_t end = 0; end != text.npos; text.remove_prefix(end == text.npos ? 0 : end + 1)) {
        end = text.find(',');
        if (text.substr(0, end).empty())
            return Error{ErrorKind::invalid,
                         "a name is missing; separate several with single commas"};
        if (out.size() == kMostValues)
            return error(ErrorKind::invalid, "more than %zu names", kMostValues);
        out.emplace_back(text.substr(0, end));
    }
    return {};
}

template <class T> Result<void> set(Result<T> value, T &out)
{
    if (!value) return std::move(value).error();
    out = *value;
    return {};
}

constexpr FilterOption kOptions[] = {
    {"rgpu-server", "NAME[,NAME]", "[rgpu] only GPUs of this server, or one of these",
     [](std::string_view value, Filters &out) { return add_list(value, out.servers); }},
    {"rgpu-name", "TEXT[,TEXT]", "[rgpu] only GPUs with this in their name: H100",
     [](std::string_view value, Filters &out) { return add_list(value, out.names); }},
    {"rgpu-uuid", "UUID[,UUID]", "[rgpu] only this GPU, or one of these",
     [](std::string_view value, Filters &out) { return add_list(value, out.uuids); }},
    {"rgpu-min-memory", "SIZE", "[rgpu] only GPUs that have so much memory in all: 40G",
     [](std::string_view value, Filters &out) { return set(parse_size(value), out.memory); }},
    {"rgpu-min-cc", "X.Y", "[rgpu] only GPUs of at least this compute capability: 8.0",
     [](std::string_view value, Filters &out) {
         return set(parse_compute_capability(value), out.compute_capability);
     }},
    {"rgpu-min-cuda", "X.Y",
     "[rgpu] only servers whose driver has at least this CUDA version: 12.4",
     [](std::string_view value, Filters &out) { return set(parse_cuda_version(value), out.cuda); }},
    {"rgpu-min-driver", "RELEASE",
     "[rgpu] only servers whose driver is of at least this release: 570.86.10",
     [](std::string_view value, Filters &out) {
         return set(parse_driver_release(value), out.driver);
     }},
};

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

}  // namespace

std::span<const FilterOption> filter_options() { return kOptions; }

Result<void> add_filter(const FilterOption &option, std::string_view value, Filters &out)
{
    const bool plain = std::none_of(value.begin(), value.end(), [](unsigned char c) {
        return c < ' ' || c == 0x7f;  // it stands in logs and on terminals
    });
    auto added = value.size() > kLongest
                     ? error(ErrorKind::invalid, "it has %zu characters; %zu are the most",
                             value.size(), kLongest)
                 : plain ? option.add(value, out)
                         : Error{ErrorKind::invalid, "it has a line break or another control "
                                                     "character in it; leave that out"};
    return added ? added : std::move(added).error().in(std::string("--") + option.name);
}

Result<int> parse_compute_capability(std::string_view text)
{
    auto parts = version(text);
    return parts ? Result<int>(parts->first * 10 + parts->second) : no_version(text, "8.0");
}

Result<int> parse_cuda_version(std::string_view text)
{
    auto parts = version(text);
    return parts ? Result<int>(parts->first * 1000 + parts->second * 10) : no_version(text, "12.4");
}

Result<std::string> parse_driver_release(std::string_view text)
{
    return is_driver_release(text) ? Result<std::string>(std::string(text))
                                   : no_version(text, "570.86.10");
}

std::string name_of_type(std::string_view type)
{
    std::string out(type);
    std::replace(out.begin(), out.end(), '_', ' ');
    return out;
}

bool is_of_type(std::string_view gpu, std::string_view type)
{
    return type.empty() || holds(gpu, name_of_type(type));
}

bool holds(std::string_view name, std::string_view part)
{
    return std::search(name.begin(), name.end(), part.begin(), part.end(),
                       [](char a, char b) { return lower(a) == lower(b); }) != name.end();
}

}  // namespace rgpu::slurm
