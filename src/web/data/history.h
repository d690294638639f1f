// SPDX-License-Identifier: Apache-2.0
// What each server of the pool did in the last day, minute by minute, in memory and in a folder of
// ring files. One thread at a time.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "util/fd.h"
#include "util/result.h"
#include "web/data/seen.h"

namespace rgpu::web {

// Sums over the GPUs of a server or of the pool; means over the time that a point stands for.
struct Point {
    int64_t time_ms = 0;                                 // since the epoch; its end
    float gpus = 0, drained = 0;                         // of servers that answer
    float held = 0, use = 0;                             // GPUs
    float memory = 0, memory_held = 0, memory_used = 0;  // bytes
    float waiting = 0;  // GPUs that jobs wait for; of the pool; or kUnknown
};
inline constexpr float kUnknown = -1;

// Points as a JSON array of [time, gpus, held, use, memory, memory_held, memory_used, drained,
// waiting]; what is not known is null. Where `step_ms` is exceeded between two of them there is
// [time] alone: nobody looked.
std::string points_json(const std::vector<Point> &points, int64_t step_ms);

// One series. In its file: 64 bytes of header, then a record for each minute of a day, which takes
// the place of that of the day before.
class Ring {
public:
    static constexpr int64_t kMinutes = 24 * 60;

    // In memory alone.
    Ring() : records_(kMinutes) {}
    // With what is in the file, which is made where it is missing. Fails with `invalid` where it is
    // no such file, and with `unavailable` where it cannot be opened.
    static Result<Ring> open(const std::string &path);

    // Keeps a minute (since the epoch). Fails where the file cannot be written.
    Result<void> put(int64_t minute, const Point &point);
    // Null: nobody looked then.
    const Point *find(int64_t minute) const;

private:
    std::vector<Point> records_;  // by minute % kMinutes; time_ms is 0 where there is none
    Fd file_;
    std::string path_;
};

class History {
public:
    static constexpr size_t kPoints = 480;  // at most, of one answer
    static constexpr int64_t kStepMs = Ring::kMinutes * 60'000 / kPoints;

    // `folder` is made where it is missing; empty: in memory alone.
    explicit History(std::string folder) : folder_(std::move(folder)) {}
    // Whether the folder can be used, before the first look.
    Result<void> check();

    // What the pool is like now. A file that cannot be read or written is told on stderr, once.
    void look(const Seen &seen);
    // The last day of a server; of all where that is empty.
    std::vector<Point> day(const std::string &server, int64_t now_ms) const;

private:
    // Looks at a series in the minute that is not over.
    struct Series {
        Ring ring;
        Point sum;
        int looks = 0;
    };
    Series &series(const std::string &name);
    void end_minute();
    void complain(const Error &why);

    const std::string folder_;
    std::map<std::string, Series> series_;  // by file; see file_of()
    int64_t minute_ = 0;                    // that is not over
    bool complained_ = false;
};

}  // namespace rgpu::web
