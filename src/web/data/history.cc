// SPDX-License-Identifier: Apache-2.0
#include "web/data/history.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <utility>

#include "pool/messages/fields.h"

namespace rgpu::web {
namespace {

constexpr int64_t kMinuteMs = 60'000;
constexpr char kHeader[64] = "rgpu web's history of a day, version 1\n";
constexpr const char *kQueue = "queue.ring";

// Every number of a point but its time: one line here for each.
constexpr std::array kNumbers = {&Point::gpus,    &Point::held,        &Point::use,
                                 &Point::memory,  &Point::memory_held, &Point::memory_used,
                                 &Point::drained, &Point::waiting};

struct Record {
    int64_t minute;
    float numbers[kNumbers.size()];
};
static_assert(sizeof(Record) == 40);

off_t place_of(int64_t minute)
{
    return static_cast<off_t>(sizeof kHeader) +
           static_cast<off_t>(minute % Ring::kMinutes) * static_cast<off_t>(sizeof(Record));
}

void add(Point &sum, const Point &more)
{
    for (auto number : kNumbers) sum.*number += more.*number;
}

Point divided(Point sum, int by)
{
    for (auto number : kNumbers) sum.*number /= static_cast<float>(by);
    return sum;
}

// A server's name is what rgpu.conf says, and not always a name for files.
std::string file_of(const std::string &server)
{
    std::string out = "server-";
    for (const char c : server) {
        const bool plain = isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '.';
        char code[4];
        snprintf(code, sizeof code, "_%02x", static_cast<unsigned char>(c));
        out += plain ? std::string(1, c) : std::string(code);
    }
    return out + ".ring";
}

Point point_of(const ServerSeen &server)
{
    Point p;
    for (const pool::GpuState &gpu : server.inventory->gpus) {
        p.gpus += 1;
        p.drained += gpu.drained.empty() ? 0 : 1;
        p.held += static_cast<float>(kWholeGpu - gpu.free_share) / kWholeGpu;
        p.memory += static_cast<float>(gpu.memory);
        p.memory_held += static_cast<float>(gpu.memory - std::min(gpu.memory, gpu.free_memory));
    }
    for (size_t i = 0; server.sharing && i < server.sharing->gpus.size(); ++i) {
        double use = 0;
        for (const pool::TenantShare &tenant : server.sharing->gpus[i].tenants) {
            use += tenant.given_10s;
            p.memory_used += static_cast<float>(tenant.memory_used);
        }
        p.use += static_cast<float>(std::min(use, 1.0));
    }
    return p;
}

Point waiting_of(const Queue &queue)
{
    Point p;
    for (const Queue::Entry &entry : queue.jobs)
        if (entry.job.waits()) p.waiting += static_cast<float>(entry.job.licences.sum) / kWholeGpu;
    return p;
}

}  // namespace

std::string points_json(const std::vector<Point> &points, int64_t step_ms)
{
    pool::Json out = pool::Json::array();
    int64_t before = 0;
    for (const Point &p : points) {
        if (before && p.time_ms > before + step_ms + step_ms / 2)
            out.push_back(pool::Json::array({before + step_ms}));
        pool::Json row = pool::Json::array({p.time_ms});
        for (auto number : kNumbers)
            row.push_back(p.*number == kUnknown ? pool::Json()
                                                : pool::Json(std::round(p.*number * 1000) / 1000));
        out.push_back(std::move(row));
        before = p.time_ms;
    }
    return pool::dump(out);
}

Result<Ring> Ring::open(const std::string &path)
{
    const char *name = path.c_str();
    Ring ring;
    ring.path_ = path;
    ring.file_ = Fd(::open(name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!ring.file_) return error(ErrorKind::unavailable, "%s: %s", name, strerror(errno));
    char header[sizeof kHeader];
    const ssize_t got = pread(ring.file_.get(), header, sizeof header, 0);
    if (got < 0) return error(ErrorKind::unavailable, "%s: %s", name, strerror(errno));
    if (got == 0) {
        if (pwrite(ring.file_.get(), kHeader, sizeof kHeader, 0) != sizeof kHeader)
            return error(ErrorKind::unavailable, "%s: %s", name, strerror(errno));
        return ring;
    }
    if (got != sizeof header || memcmp(header, kHeader, sizeof header) != 0)
        return error(ErrorKind::invalid,
                     "%s is no history of this version of rgpu web: remove it, or set [web] "
                     "history to another folder",
                     name);
    std::vector<Record> records(kMinutes);
    const ssize_t bytes =
        pread(ring.file_.get(), records.data(), records.size() * sizeof(Record), sizeof kHeader);
    if (bytes < 0) return error(ErrorKind::unavailable, "%s: %s", name, strerror(errno));
    records.resize(static_cast<size_t>(bytes) / sizeof(Record));
    for (size_t i = 0; i < records.size(); ++i) {
        // What a crash has left half-written, or what was never written.
        if (records[i].minute <= 0 || records[i].minute % kMinutes != static_cast<int64_t>(i))
            continue;
        Point point;
        point.time_ms = (records[i].minute + 1) * kMinuteMs;
        bool good = true;
        for (size_t n = 0; n < kNumbers.size(); ++n) {
            point.*kNumbers[n] = records[i].numbers[n];
            good = good && std::isfinite(records[i].numbers[n]) && records[i].numbers[n] >= 0;
        }
        if (good) ring.records_[i] = point;
    }
    return ring;
}

Result<void> Ring::put(int64_t minute, const Point &point)
{
    Point &kept = records_[static_cast<size_t>(minute % kMinutes)];
    kept = point;
    kept.time_ms = (minute + 1) * kMinuteMs;
    if (!file_) return {};
    Record record{minute, {}};
    for (size_t n = 0; n < kNumbers.size(); ++n) record.numbers[n] = point.*kNumbers[n];
    if (pwrite(file_.get(), &record, sizeof record, place_of(minute)) != sizeof record)
        return error(ErrorKind::unavailable, "%s: %s", path_.c_str(), strerror(errno));
    return {};
}

const Point *Ring::find(int64_t minute) const
{
    if (minute < 0) return nullptr;
    const Point &kept = records_[static_cast<size_t>(minute % kMinutes)];
    return kept.time_ms == (minute + 1) * kMinuteMs ? &kept : nullptr;
}

Result<void> History::check()
{
    if (folder_.empty()) return {};
    if (mkdir(folder_.c_str(), 0700) != 0 && errno != EEXIST)
        return error(ErrorKind::invalid, "[web] history %s: %s", folder_.c_str(), strerror(errno));
    Result<Ring> queue = Ring::open(folder_ + "/" + kQueue);
    return queue ? Result<void>() : std::move(queue).error().in("[web] history");
}

void History::complain(const Error &why)
{
    if (!std::exchange(complained_, true))
        fprintf(stderr, "rgpu: the page's history is kept in memory alone: %s\n", why.text.c_str());
}

History::Series &History::series(const std::string &name)
{
    const auto [at, added] = series_.try_emplace(name);
    if (added && !folder_.empty()) {
        if (Result<Ring> ring = Ring::open(folder_ + "/" + name))
            at->second.ring = std::move(*ring);
        else
            complain(ring.error());
    }
    return at->second;
}

void History::end_minute()
{
    for (auto &[name, series] : series_) {
        if (series.looks == 0) continue;
        if (Result<void> put = series.ring.put(minute_, divided(series.sum, series.looks)); !put)
            complain(put.error());
        series.sum = {};
        series.looks = 0;
    }
}

void History::look(const Seen &seen)
{
    const int64_t minute = seen.time_ms / kMinuteMs;
    if (minute != minute_) end_minute();
    minute_ = minute;
    const auto note = [](Series &to, const Point &point) {
        add(to.sum, point);
        ++to.looks;
    };
    for (const ServerSeen &server : seen.servers) {
        Series &own = series(file_of(server.name));  // also of one that is silent now
        if (server.inventory && server.failure.empty()) note(own, point_of(server));
    }
    Series &queue = series(kQueue);
    if (seen.queue.failure.empty()) note(queue, waiting_of(seen.queue));
}

std::vector<Point> History::day(const std::string &server, int64_t now_ms) const
{
    constexpr int64_t kEach = kStepMs / kMinuteMs;  // minutes of a point
    // Whole steps, so that the same minutes are together whenever one asks.
    const int64_t end = now_ms / kStepMs * kEach;
    const std::string only = server.empty() ? "" : file_of(server);
    std::vector<Point> out;
    for (int64_t begin = end - Ring::kMinutes; begin < end; begin += kEach) {
        Point sum;
        int minutes = 0, queues = 0;
        for (int64_t minute = begin; minute < begin + kEach; ++minute) {
            bool seen = false, queue = false;
            for (const auto &[name, series] : series_) {
                if (!only.empty() && name != only) continue;
                const Point *point = series.ring.find(minute);
                if (!point) continue;
                add(sum, *point);
                (name == kQueue ? queue : seen) = true;
            }
            minutes += seen, queues += queue;
        }
        if (minutes == 0) continue;
        Point &point = out.emplace_back(divided(sum, minutes));
        point.time_ms = (begin + kEach) * kMinuteMs;
        point.waiting = queues ? sum.waiting / static_cast<float>(queues) : kUnknown;
    }
    return out;
}

}  // namespace rgpu::web
