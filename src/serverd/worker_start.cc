// SPDX-License-Identifier: Apache-2.0
// One list of fields, which the encoder and the decoder both go through.
#include "serverd/worker_start.h"

#include <charconv>
#include <cinttypes>
#include <cstdio>
#include <string_view>

#include "util/units.h"

namespace rgpu::serverd {

namespace {

constexpr size_t kMostGpus = 256;           // of one host
constexpr int64_t kMostDescriptor = 65535;  // more than any limit of open files here
constexpr int64_t kMostMilliseconds = INT64_MAX / 1'000'000;

// A number that is written as 16 digits of hex.
struct Hex {
    uint64_t &value;
};
struct HexIn {
    const uint64_t &value;
};

// Calls field(name, member) for each variable. The integers' ranges stand behind them.
template <class Start, class Field> void each_field(Start &s, Field field)
{
    using Number = std::conditional_t<std::is_const_v<Start>, HexIn, Hex>;
    field("RGPU_WORKER_LEASE", s.lease);
    field("RGPU_WORKER_SERVER", s.server);
    field("RGPU_WORKER_NUMBER", Number{s.number});
    field("RGPU_WORKER_CLIENT_TABLE", Number{s.client_table});
    field("RGPU_WORKER_WARM", s.waits);
    field("RGPU_WORKER_UCX", s.takes_ucx);
    field("RGPU_WORKER_DUMPABLE", s.dumpable);
    field("RGPU_WORKER_CONFINE", s.confinement);
    field("RGPU_WORKER_MEMORY", s.memory, 0, INT64_MAX);
    field("RGPU_WORKER_SHARE", s.shares);
    field("RGPU_WORKER_BOARDS", s.boards, 0, kMostDescriptor);
    field("RGPU_WORKER_PLACES", s.places, 0, kMostGpus - 1);
    field("RGPU_WORKER_LEASE_GPUS", s.lease_gpus, 0, kMostGpus);
    field("RGPU_WORKER_MAX_KERNEL", s.max_kernel, 0, kMostMilliseconds);
    field("RGPU_WORKER_IMAGES", s.images);
    field("RGPU_WORKER_IMAGES_BYTES", s.image_bytes, 0, INT64_MAX);
    field("RGPU_WORKER_NCCL", s.nccl);
    field("RGPU_WORKER_NCCL_INTERFACE", s.nccl_interface);
    field("RGPU_WORKER_METER", s.meter, 0, kMostDescriptor);
    field("RGPU_WORKER_KEY", s.key, 0, kMostDescriptor);
}

struct Word {
    Confinement value;
    const char *text;
};
constexpr Word kConfinements[] = {{Confinement::by_name, "1"},
                                  {Confinement::none, "0"},
                                  {Confinement::software, "software"},
                                  {Confinement::log, "log"}};

// --- writing

std::string text_of(const std::string &s) { return s; }
std::string text_of(HexIn h) { return format_worker_number(h.value); }
std::string text_of(bool) { return "1"; }
std::string text_of(GpuShare s) { return std::to_string(s.least) + "-" + std::to_string(s.most); }
template <std::integral T> std::string text_of(T n) { return std::to_string(n); }
std::string text_of(Confinement c)
{
    for (const Word &w : kConfinements)
        if (w.value == c) return w.text;
    return "1";
}
template <class T> std::string text_of(const std::vector<T> &list)
{
    std::string all;
    for (const T &one : list) all += (all.empty() ? "" : ",") + text_of(one);
    return all;
}

// --- reading

struct Range {
    int64_t low = 0, high = 0;
};

Result<void> read(std::string_view text, std::string &to, Range)
{
    to = text;
    return {};
}

Result<void> read(std::string_view text, Hex to, Range)
{
    const auto [end, failure] =
        std::from_chars(text.data(), text.data() + text.size(), to.value, 16);
    if (text.size() != 16 || failure != std::errc() || end != text.data() + text.size())
        return error(ErrorKind::invalid, "not 16 digits of hex");
    return {};
}

// What it says does not matter: that it is there does.
Result<void> read(std::string_view, bool &to, Range)
{
    to = true;
    return {};
}

template <std::integral T> Result<void> read(std::string_view text, T &to, Range range)
{
    auto number = parse_integer(text, range.low, range.high);
    if (!number) return std::move(number).error();
    to = static_cast<T>(*number);
    return {};
}

Result<void> read(std::string_view text, Confinement &to, Range)
{
    for (const Word &w : kConfinements)
        if (text == w.text) {
            to = w.value;
            return {};
        }
    return error(ErrorKind::invalid, "none of the filters of system calls");
}

Result<void> read(std::string_view text, GpuShare &to, Range)
{
    constexpr Range kHundredths{0, 100};
    const size_t dash = text.find('-');
    if (dash == text.npos) return error(ErrorKind::invalid, "no share as \"25-100\"");
    if (auto r = read(text.substr(0, dash), to.least, kHundredths); !r) return r;
    if (auto r = read(text.substr(dash + 1), to.most, kHundredths); !r) return r;
    if (to.least > to.most) return error(ErrorKind::invalid, "a share above its own ceiling");
    return {};
}

template <class T> Result<void> read(std::string_view text, std::vector<T> &to, Range range)
{
    for (size_t comma = 0; comma != text.npos;) {
        if (to.size() == kMostGpus) return error(ErrorKind::invalid, "more GPUs than a host has");
        comma = text.find(',');
        if (auto r = read(text.substr(0, comma), to.emplace_back(), range); !r) return r;
        if (comma != text.npos) text.remove_prefix(comma + 1);
    }
    return {};
}

}  // namespace

std::string format_worker_number(uint64_t number)
{
    char text[17];
    snprintf(text, sizeof text, "%016" PRIx64, number);
    return text;
}

std::map<std::string, std::string> encode(const WorkerStart &start)
{
    std::map<std::string, std::string> variables, usual;
    const auto write = [](auto &to) {
        return [&to](const char *name, const auto &member, auto...) { to[name] = text_of(member); };
    };
    each_field(start, write(variables));
    const WorkerStart none;
    each_field(none, write(usual));
    // A flag's text does not tell, and its variable is there only where the flag is set.
    each_field(start, [&](const char *name, const auto &member, auto...) {
        if constexpr (std::is_same_v<decltype(member), const bool &>) {
            if (!member) variables.erase(name);
        } else if (variables[name] == usual[name]) {
            variables.erase(name);
        }
    });
    return variables;
}

Result<WorkerStart> decode_worker_start(const std::function<const char *(const char *name)> &get)
{
    WorkerStart start;
    Result<void> result;
    each_field(start, [&](const char *name, auto &&member, int64_t low = 0, int64_t high = 0) {
        const char *text = get(name);
        if (!result || !text || !*text) return;
        if (auto r = read(text, member, {low, high}); !r) result = std::move(r).error().in(name);
    });
    if (!result) return std::move(result).error();
    return start;
}

}  // namespace rgpu::serverd
