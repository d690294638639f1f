// SPDX-License-Identifier: Apache-2.0
// Counters without locks, and the report when the library is unloaded with the process.
#include "interpose/base/stats.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "calls/errors.h"
#include "interpose/base/forecasting.h"
#include "interpose/base/log.h"
#include "util/fd.h"

namespace rgpu::interpose {

namespace {

using Counter = std::atomic<uint64_t>;

struct Row {
    Counter count, failed, round_trips, ns, blocked_ns;
};
constinit std::array<Row, calls::kCallCount> rows{};
constinit Counter sent{}, received{}, round_trips{}, blocked_ns{};
constinit std::atomic<pid_t> owner{};
constinit std::atomic<const char *> transport{"none"};
constinit std::atomic<size_t> connections{1};
constinit Counter packed_bytes{}, packed_to{}, unpacked_from{}, unpacked_bytes{};
constinit std::atomic<wire::PackMethod> packed_by{wire::PackMethod::stored};

// What the thread waited for and no call has accounted for yet.
constinit thread_local uint64_t my_round_trips = 0, my_blocked_ns = 0;

void add(Counter &c, uint64_t n) { c.fetch_add(n, std::memory_order_relaxed); }
uint64_t get(const Counter &c) { return c.load(std::memory_order_relaxed); }
double ms(uint64_t ns) { return static_cast<double>(ns) * 1e-6; }

const char *setting()
{
    static const char *const value = [] {
        const char *v = getenv("RGPU_STATS");
        return v && *v && std::string_view(v) != "0" ? v : nullptr;
    }();
    return value;
}

bool names_a_file(std::string_view to) { return to.find('/') != to.npos || to.ends_with(".json"); }

template <class... A> void append(std::string &out, const char *format, A... args)
{
    char line[512];
    const int n = snprintf(line, sizeof line, format, args...);
    out.append(line, std::min(sizeof line - 1, static_cast<size_t>(std::max(n, 0))));
}

std::vector<size_t> called_rows()
{
    std::vector<size_t> called;
    for (size_t i = 0; i < rows.size(); i++)
        if (get(rows[i].count)) called.push_back(i);
    std::stable_sort(called.begin(), called.end(),
                     [](size_t a, size_t b) { return get(rows[a].ns) > get(rows[b].ns); });
    return called;
}

uint64_t calls_of(const std::vector<size_t> &called)
{
    uint64_t all = 0;
    for (size_t i : called) all += get(rows[i].count);
    return all;
}

const char *name_of(wire::PackMethod m)
{
    return m == wire::PackMethod::lz4 ? "lz4" : m == wire::PackMethod::zstd ? "zstd" : "none";
}

std::string as_table()
{
    std::string out;
    const auto called = called_rows();
    append(out,
           "rgpu stats: %llu calls of %zu names, %llu round trips, %llu bytes sent, %llu received "
           "(%s), %.3f ms blocked\n",
           (unsigned long long)calls_of(called), called.size(),
           (unsigned long long)get(round_trips), (unsigned long long)get(sent),
           (unsigned long long)get(received), transport.load(), ms(get(blocked_ns)));
    if (get(packed_bytes) || get(unpacked_bytes))
        append(out, "rgpu stats: packed: %llu bytes sent as %llu, %llu received as %llu\n",
               (unsigned long long)get(packed_bytes), (unsigned long long)get(packed_to),
               (unsigned long long)get(unpacked_bytes), (unsigned long long)get(unpacked_from));
    append(out, "rgpu stats: %9s %8s %11s %12s %12s  %s\n", "calls", "failed", "round trips",
           "total ms", "blocked ms", "name");
    for (size_t i : called)
        append(out, "rgpu stats: %9llu %8llu %11llu %12.3f %12.3f  %s\n",
               (unsigned long long)get(rows[i].count), (unsigned long long)get(rows[i].failed),
               (unsigned long long)get(rows[i].round_trips), ms(get(rows[i].ns)),
               ms(get(rows[i].blocked_ns)), calls::kCalls[i].symbol.data());
    return out;
}

std::string as_json()
{
    std::string out;
    const auto called = called_rows();
    append(out,
           "{\"pid\": %d, \"calls\": %llu, \"round_trips\": %llu, \"bytes_sent\": %llu, "
           "\"bytes_received\": %llu, "
           "\"transport\": \"%s\", \"connections\": %zu, \"blocked_ms\": %.3f, ",
           getpid(), (unsigned long long)calls_of(called), (unsigned long long)get(round_trips),
           (unsigned long long)get(sent), (unsigned long long)get(received), transport.load(),
           connections.load(), ms(get(blocked_ns)));
    append(out,
           "\"packed\": {\"by\": \"%s\", \"bytes_sent\": %llu, \"sent_as\": %llu, "
           "\"bytes_received\": %llu, \"received_as\": %llu}, \"by_name\": {",
           name_of(packed_by), (unsigned long long)get(packed_bytes),
           (unsigned long long)get(packed_to), (unsigned long long)get(unpacked_bytes),
           (unsigned long long)get(unpacked_from));
    const char *comma = "";
    for (size_t i : called) {
        append(out,
               "%s\n  \"%s\": {\"calls\": %llu, \"failed\": %llu, \"round_trips\": %llu, \"ms\": "
               "%.3f, \"blocked_ms\": %.3f}",
               comma, calls::kCalls[i].symbol.data(), (unsigned long long)get(rows[i].count),
               (unsigned long long)get(rows[i].failed),
               (unsigned long long)get(rows[i].round_trips), ms(get(rows[i].ns)),
               ms(get(rows[i].blocked_ns)));
        comma = ",";
    }
    out += "\n}";
    if (const std::string forecast = forecast_json(); !forecast.empty())
        out += ", \"forecast\": " + forecast;
    return out + "}\n";
}

void write_all(int fd, const std::string &text)
{
    for (size_t at = 0; at < text.size();) {
        const ssize_t n = write(fd, text.data() + at, text.size() - at);
        if (n <= 0) return;  // nowhere to complain
        at += static_cast<size_t>(n);
    }
}

// At the process's end, after every atexit handler. The child of a fork has its parent's counts: it
// says nothing.
[[gnu::destructor]] void report()
{
    const char *to = owner == getpid() ? setting() : nullptr;
    if (!to) return;
    if (!names_a_file(to)) {
        write_all(STDERR_FILENO, as_table());
        return;
    }
    std::string path = to;
    if (size_t at = path.find("%p"); at != path.npos) path.replace(at, 2, std::to_string(getpid()));
    Fd fd(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
    if (fd)
        write_all(fd.get(), as_json());
    else
        say("RGPU_STATS: %s: %m", path.c_str());
}

}  // namespace

bool counting()
{
    static const bool on = setting() && (owner = getpid(), true);
    return on;
}

bool counting_to_file()
{
    static const bool on = counting() && names_a_file(setting());
    return on;
}

void count_call(calls::CallId id, CUresult result, uint64_t ns)
{
    Row &row = rows[static_cast<size_t>(id)];
    add(row.count, 1);
    add(row.ns, ns);
    if (result && result != CUDA_ERROR_NOT_READY) add(row.failed, 1);
    if (my_round_trips) add(row.round_trips, my_round_trips), my_round_trips = 0;
    if (my_blocked_ns) add(row.blocked_ns, my_blocked_ns), my_blocked_ns = 0;
}

void note_transport(const char *name) { transport = name; }
void note_connections(size_t n) { connections = n; }
void count_sent(size_t bytes) { add(sent, bytes); }
void count_received(size_t bytes) { add(received, bytes); }

void count_packed(wire::PackMethod method, size_t bytes, size_t packed)
{
    packed_by = method;
    add(packed_bytes, bytes), add(packed_to, packed);
}

void count_unpacked(size_t packed, size_t bytes)
{
    add(unpacked_from, packed), add(unpacked_bytes, bytes);
}

void count_round_trip(uint64_t ns)
{
    add(round_trips, 1);
    add(blocked_ns, ns);
    if (!counting()) return;
    my_round_trips++;
    my_blocked_ns += ns;
}

}  // namespace rgpu::interpose
