// SPDX-License-Identifier: Apache-2.0
#include "cli/parts/prediction.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>
#include <limits>

#include <nlohmann/json.hpp>

#include "cli/parts/link.h"
#include "cli/parts/pool_view.h"
#include "cli/parts/table.h"
#include "pool/messages/fields.h"
#include "util/defaults.h"
#include "util/fd.h"

namespace rgpu::cli {
namespace {

using pool::Json;
using pool::Reader;

constexpr size_t kMostRecorded = 1 << 20;  // bytes of a file
constexpr size_t kMostTimes = 1000;
constexpr double kMost = 1e15;  // of any number in a file
constexpr double kMuch = 0.25;  // of the time: worth a word

double real(Reader &reader, const char *key, bool may_be_negative = false)
{
    const double value = reader.real(key);
    if (std::isfinite(value) && std::abs(value) <= kMost && (may_be_negative || value >= 0))
        return value;
    reader.wrong(key, "is no number that a run has");
    return 0;
}

Result<LinkTime> read_time(const Json &json)
{
    Reader reader(json, "later");
    LinkTime t;
    t.fixed = real(reader, "seconds", true);
    t.trips = real(reader, "round_trips", true);
    t.up = real(reader, "up", true);
    t.down = real(reader, "down", true);
    if (Result<void> r = reader.done(); !r) return std::move(r).error();
    return t;
}

Result<RecordedProcess> read_process(const Json &json)
{
    Reader reader(json, "it");
    RecordedProcess p;
    p.calls = reader.count<uint64_t>("calls");
    p.round_trips = reader.count<uint64_t>("round_trips");
    p.sent = reader.count<uint64_t>("bytes_sent");
    p.received = reader.count<uint64_t>("bytes_received");
    p.transport = reader.text("transport");
    if (const Json *names = reader.member("by_name"); names && names->is_object())
        for (const auto &[name, counts] : names->items()) {
            Reader one(counts, "by_name");
            const auto trips = one.count<uint64_t>("round_trips");
            if (!one.done() || trips <= p.waits || name.size() > 100) continue;
            p.waits = trips;
            p.waits_most = pool::printable(name, 100);
        }
    const Json *forecast = reader.member("forecast", false);
    if (Result<void> r = reader.done(); !r) return std::move(r).error();
    if (!forecast)
        return error(ErrorKind::invalid,
                     "it has no forecast: its process made no call that needs a GPU, or an "
                     "older rgpu wrote it");
    Reader inner(*forecast, "forecast");
    p.began = real(inner, "began");
    p.seconds = real(inner, "seconds");
    p.measuring = real(inner, "measuring_s");
    inner.each("later", [&](const Json &element) -> Result<void> {
        if (p.later.size() >= kMostTimes)
            return error(ErrorKind::invalid, "later: more than %zu", kMostTimes);
        auto t = read_time(element);
        if (!t) return std::move(t).error();
        p.later.push_back(*t);
        return {};
    });
    if (Result<void> r = inner.done(); !r) return std::move(r).error();
    if (p.later.empty()) return error(ErrorKind::invalid, "forecast: \"later\" is empty");
    return p;
}

Result<std::string> read_file(const std::string &path)
{
    std::string text(kMostRecorded, '\0');
    size_t size = 0;
    const Fd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
    for (ssize_t n = fd ? 1 : -1; n; size += static_cast<size_t>(n)) {
        n = fd ? read(fd.get(), &text[size], text.size() - size) : -1;
        if (n < 0) return error(ErrorKind::invalid, "%s: %s", path.c_str(), strerror(errno));
    }
    text.resize(size);
    return text;
}

// A number, then a unit of these.
struct Unit {
    const char *name;
    double factor;
};
std::optional<double> number_with(std::string_view text, std::initializer_list<Unit> units)
{
    const std::string copy(text);
    char *end = nullptr;
    if (copy.empty() || !(isdigit(static_cast<unsigned char>(copy[0])) || copy[0] == '.'))
        return {};
    const double value = strtod(copy.c_str(), &end);
    for (const Unit &unit : units)
        if (!strcmp(end, unit.name) && std::isfinite(value)) return value * unit.factor;
    return {};
}

std::optional<double> pace_of(std::string_view rate)
{
    const auto bits = number_with(rate, {{"K", 1e3},
                                         {"M", 1e6},
                                         {"G", 1e9},
                                         {"T", 1e12},
                                         {"Kbit/s", 1e3},
                                         {"Mbit/s", 1e6},
                                         {"Gbit/s", 1e9}});
    if (!bits || *bits < 1) return {};
    return 8 / *bits;
}

// Seconds a byte, of the largest copy: it takes so many bytes and a round trip. Where that is most
// of it, it is not known better.
double pace_of(double bytes, double GBps, double round_trip)
{
    const double took = bytes / (GBps * 1e9);
    return std::max(took - round_trip, took / 4) / bytes;
}

Result<LinkPace> read_bench(const Json &json)
{
    Reader reader(json, "it");
    const Json *call = reader.member("call");
    std::vector<Bandwidth> all;
    reader.each("bandwidth", [&](const Json &element) -> Result<void> {
        Reader one(element, "bandwidth");
        Bandwidth b{one.count<size_t>("bytes"), real(one, "to_gpu_GBps"),
                    real(one, "from_gpu_GBps")};
        if (Result<void> r = one.done(); !r) return r;
        if (b.to_gpu <= 0 || b.from_gpu <= 0 || (!all.empty() && b.bytes <= all.back().bytes))
            return error(ErrorKind::invalid, "bandwidth: rising bytes and their rates are wanted");
        all.push_back(b);
        return {};
    });
    if (Result<void> r = reader.done(); !r) return std::move(r).error();
    if (all.empty()) return error(ErrorKind::invalid, "\"bandwidth\" is empty");
    Reader waits(*call, "call");
    const double us = real(waits, "p50_us");
    if (Result<void> r = waits.done(); !r) return std::move(r).error();
    // Small copies to the GPU are measured a mebibyte at a time (link_measure.cc).
    const auto bytes = static_cast<double>(all.back().bytes);
    return LinkPace{us / 1e6,
                    pace_of(std::max<double>(bytes, 1 << 20), all.back().to_gpu, us / 1e6),
                    pace_of(bytes, all.back().from_gpu, us / 1e6)};
}

std::string seconds_text(double s)
{
    char text[32];
    snprintf(text, sizeof text, s < 100 ? "%.2f" : "%.0f", std::max(0.0, s));
    return text;
}

std::string rate_text(double pace)
{
    const double mega = 8 / pace / 1e6;
    char text[32];
    snprintf(text, sizeof text, mega < 1000 ? "%.3g Mbit/s" : "%.3g Gbit/s",
             mega < 1000 ? mega : mega / 1000);
    return text;
}

std::string link_text(const LinkPace &pace)
{
    char trip[32];
    snprintf(trip, sizeof trip, pace.round_trip < 1e-3 ? "%.0f us" : "%.3g ms",
             pace.round_trip * (pace.round_trip < 1e-3 ? 1e6 : 1e3));
    std::string text = std::string(trip) + ", " + rate_text(pace.up);
    if (std::max(pace.up, pace.down) > 1.05 * std::min(pace.up, pace.down))
        text += " up, " + rate_text(pace.down) + " down";
    return text;
}

// How much later the command ends: the longest chain of processes, each of which began when the one
// before had ended.
LinkTime chain(const std::vector<RecordedProcess> &processes, const LinkPace &pace)
{
    std::vector<LinkTime> until;  // with that process
    for (size_t i = 0; i < processes.size(); i++) {
        LinkTime before;
        bool any = false;
        for (size_t j = 0; j < i; j++) {
            const RecordedProcess &earlier = processes[j];
            if (earlier.began + earlier.seconds > processes[i].began) continue;
            if (!any || until[j].over(pace) > before.over(pace)) before = until[j];
            any = true;
        }
        LinkTime own = longest(processes[i].later, pace);
        own.fixed -= processes[i].measuring;
        until.push_back(own += before);
    }
    return longest(until, pace);
}

std::vector<std::string> advice_for(const Prediction &p,
                                    const std::vector<RecordedProcess> &processes)
{
    // Of the links of the pool and of --link: where it costs most.
    const auto worst =
        std::max_element(p.links.begin(), p.links.end(),
                         [](const auto &a, const auto &b) { return a.factor < b.factor; });
    std::vector<std::string> out;
    const std::string over = "over " + worst->link.name + ", ";
    const auto &most =
        *std::max_element(processes.begin(), processes.end(),
                          [](const auto &a, const auto &b) { return a.waits < b.waits; });
    if (worst->for_trips >= kMuch * worst->seconds && most.waits)
        out.push_back(over + "most of it waits for answers: " + std::to_string(most.waits) +
                      " of " + std::to_string(p.round_trips) + " round trips are " +
                      most.waits_most +
                      "; wait less often, for more at once, or copy results together");
    if (worst->for_bytes >= kMuch * worst->seconds)
        out.push_back(over + "most of it is bytes under way (" + human_size(p.sent) +
                      " to the GPUs, " + human_size(p.received) +
                      " back): keep data on the GPU, or copy while it computes");
    if (out.empty() && worst != p.links.begin())
        out.push_back(worst->factor <= 1.1
                          ? "no link above costs it more than a tenth"
                          : over + "its calls wait little: what is left is the way there");
    return out;
}

}  // namespace

Result<RecordedProcess> decode_recorded(std::string_view json)
{
    return pool::decode<RecordedProcess>(json, read_process);
}

Result<RecordedProcess> read_recorded(const std::string &path)
{
    const auto text = read_file(path);
    if (!text) return text.error();
    auto recorded = decode_recorded(*text);
    if (!recorded)
        return error(ErrorKind::invalid, "%s is no record of a program (RGPU_STATS=FILE): %s",
                     path.c_str(), recorded.error().text.c_str());
    return recorded;
}

NamedLink local_link() { return {"local", kLocalPace}; }

Result<NamedLink> parse_link(const std::string &text)
{
    const size_t equals = text.find('=');
    const std::string how = equals == text.npos ? text : text.substr(equals + 1);
    NamedLink link{equals == text.npos ? text : text.substr(0, equals), {}};
    const size_t comma = how.find(',');
    const auto trip = number_with(how.substr(0, comma), {{"us", 1e-6}, {"ms", 1e-3}, {"s", 1}});
    if (comma == how.npos || !trip) {
        const auto file = read_file(how);
        if (!file)
            return error(ErrorKind::invalid,
                         "%s is no link: write a round trip and bits a second, like 5ms,200M, or "
                         "a file of rgpu bench --json",
                         text.c_str());
        const auto pace = pool::decode<LinkPace>(*file, read_bench);
        if (!pace)
            return error(ErrorKind::invalid, "%s is not what rgpu bench --json prints: %s",
                         how.c_str(), pace.error().text.c_str());
        link.pace = *pace;
        return link;
    }
    const std::string rates = how.substr(comma + 1);
    const size_t second = rates.find(',');
    const auto up = pace_of(std::string_view(rates).substr(0, second)),
               down = second == rates.npos ? up
                                           : pace_of(std::string_view(rates).substr(second + 1));
    if (!up || !down)
        return error(ErrorKind::invalid,
                     "%s: bits a second are wanted behind the comma, like 200M or 10G (both ways, "
                     "or to the server and from it: 50M,200M)",
                     text.c_str());
    link.pace = {*trip, *up, *down};
    return link;
}

Result<NamedLink> measure_path(pool::Client &client, const ServerEntry &server,
                               Milliseconds timeout)
{
    using Clock = std::chrono::steady_clock;
    constexpr int kConnectsHere = 9;
    constexpr double kEnough = 0.2;  // seconds for bytes
    const auto tcp = measure_tcp(server.address, timeout, kConnectsHere);
    if (!tcp) return Error(tcp.error()).in(server.name);
    const auto took = [&](size_t bytes) -> Result<double> {
        double least = std::numeric_limits<double>::infinity();
        for (int i = 0; i < 3; i++) {
            const auto start = Clock::now();
            const auto got = client.probe(server.name, bytes);
            if (!got) return got.error();
            least = std::min(least, std::chrono::duration<double>(Clock::now() - start).count());
        }
        return least;
    };
    // The small one has the cost of a request, the large one that and the bytes.
    const auto small = took(1);
    if (!small) return small.error();
    double pace = 0;
    for (size_t bytes = defaults::kMaxProbe / 64; bytes <= defaults::kMaxProbe; bytes *= 8) {
        const auto large = took(bytes);
        if (!large) return large.error();
        pace = std::max(*large - *small, 1e-6) / static_cast<double>(bytes);
        if (*large > kEnough) break;
    }
    return NamedLink{server.name, {tcp->p50 / 1e6, pace, pace}};
}

Prediction predict(std::vector<RecordedProcess> processes, double seconds,
                   const std::vector<NamedLink> &links)
{
    std::stable_sort(processes.begin(), processes.end(),
                     [](const auto &a, const auto &b) { return a.began < b.began; });
    Prediction p;
    p.processes = processes.size();
    double end = 0;
    for (const RecordedProcess &one : processes) {
        end = std::max(end, one.began + one.seconds);
        p.calls += one.calls, p.round_trips += one.round_trips;
        p.sent += one.sent, p.received += one.received;
    }
    p.measured = seconds > 0 ? seconds : end - processes.front().began;
    std::vector<NamedLink> all{local_link()};
    all.insert(all.end(), links.begin(), links.end());
    for (NamedLink &link : all) {
        const LinkTime later = chain(processes, link.pace);
        Predicted one{std::move(link)};
        one.seconds = std::max(0.0, p.measured + later.over(one.link.pace));
        one.for_trips = std::max(0.0, later.for_trips(one.link.pace));
        one.for_bytes = std::max(0.0, later.for_bytes(one.link.pace));
        const double local = p.links.empty() ? one.seconds : p.links.front().seconds;
        one.factor = local > 0 ? one.seconds / local : 1;
        p.links.push_back(std::move(one));
    }
    p.advice = advice_for(p, processes);
    return p;
}

std::string prediction_text(const Prediction &p)
{
    std::string out = "this program: " + seconds_text(p.measured) + " s here; " +
                      (p.processes == 1 ? "" : std::to_string(p.processes) + " processes, ") +
                      std::to_string(p.calls) + " calls, " + std::to_string(p.round_trips) +
                      " round trips, " + human_size(p.sent) + " to the GPUs, " +
                      human_size(p.received) + " back\n";
    std::vector<std::vector<std::string>> rows = {
        {"PREDICTED", "LINK", "SECONDS", "TIMES LOCAL", "FOR ROUND TRIPS", "FOR BYTES"}};
    for (const Predicted &one : p.links) {
        char factor[32];
        snprintf(factor, sizeof factor, "%.2f", one.factor);
        rows.push_back({one.link.name, &one == &p.links.front() ? "-" : link_text(one.link.pace),
                        seconds_text(one.seconds), factor, seconds_text(one.for_trips),
                        seconds_text(one.for_bytes)});
    }
    out += table(rows);
    for (const std::string &why : p.unknown) out += "not predicted: " + why + "\n";
    for (const std::string &sentence : p.advice) out += "advice: " + sentence + "\n";
    return out;
}

std::string prediction_json(const Prediction &p)
{
    Json links = Json::array();
    for (const Predicted &one : p.links)
        links.push_back({{"name", one.link.name},
                         {"round_trip_us", one.link.pace.round_trip * 1e6},
                         {"up_bytes_per_s", 1 / one.link.pace.up},
                         {"down_bytes_per_s", 1 / one.link.pace.down},
                         {"seconds", one.seconds},
                         {"factor", one.factor},
                         {"round_trips_s", one.for_trips},
                         {"bytes_s", one.for_bytes}});
    return pool::dump(Json{{"measured_s", p.measured},
                           {"processes", p.processes},
                           {"calls", p.calls},
                           {"round_trips", p.round_trips},
                           {"bytes_sent", p.sent},
                           {"bytes_received", p.received},
                           {"links", std::move(links)},
                           {"unknown", p.unknown},
                           {"advice", p.advice}},
                      2) +
           "\n";
}

}  // namespace rgpu::cli
