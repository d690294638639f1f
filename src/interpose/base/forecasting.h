// SPDX-License-Identifier: Apache-2.0
// The forecast (forecast.h) of this process's run: its clock, its threads, and what is told of it
// at its end, in the JSON of RGPU_STATS.
//
// Made only where RGPU_STATS names a file. The link's parts have a pointer to their connection's
// Forecaster, which is null otherwise: that is all that a call pays.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "calls/calls.h"

namespace rgpu::interpose {

namespace forecast {
class Line;
struct Trip;
}  // namespace forecast

// Of one connection. Any thread may call anything, with any of the connection's locks; none is
// taken here but one that is held for moments.
class Forecaster {
public:
    Forecaster();
    ~Forecaster();
    Forecaster(const Forecaster &) = delete;
    Forecaster &operator=(const Forecaster &) = delete;

    // What questions took that need no work, in seconds: one behind the other, and after rests.
    void learn_floor(double warm, double cold);
    // The handshake: as many round trips as it takes; and time that was spent for the forecast.
    void connected(double trips);
    static void spent(double seconds);

    // The calling thread is about to put a call: before it waits for any lock.
    void comes();
    // The trip of that call's answer, where it has one. It lies in the buffer when put() is called,
    // which fails by leaving it out of the forecast.
    std::shared_ptr<forecast::Trip> ask(calls::CallId id, bool copy);
    void put(calls::CallId id) noexcept;
    // With the call buffer's lock, as the two above: bytes have left, and then all that was put.
    void sent(size_t bytes);
    void left();

    // By the thread that reads. Bytes have come; `waited`: they were not there. They began a frame,
    // and it is of this answer.
    void heard(bool waited);
    void frame() { frame_at_ = heard_at_, frame_waited_ = heard_waited_; }
    void came(forecast::Trip &trip, size_t bytes, bool last);
    void pushed();

    // The calling thread has waited since then (now(), before) for that answer; for all copies.
    void waited(const forecast::Trip &trip, double since);
    void copied(const forecast::Trip &trip);
    void waited_for_copies(double since);
    static double now();

private:
    const std::unique_ptr<forecast::Line> line_;
    std::shared_ptr<forecast::Trip> asked_;
    double heard_at_ = 0, frame_at_ = 0;
    bool heard_waited_ = false, frame_waited_ = false;
};

// A JSON object; empty where nothing was forecast.
std::string forecast_json();

}  // namespace rgpu::interpose
