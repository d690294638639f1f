// SPDX-License-Identifier: Apache-2.0
// Reads the GPUs' energy counters once a second, by a process of the worker program that lives as
// long as rgpud (worker/host/energy.h): to start NVML anew each time would take longer than that.
//
// Where there is no NVML a line in the log says so, once, and nothing is counted. A process that
// has died, or does not answer, is started again after a minute.
#pragma once

#include <sys/types.h>

#include <string>

#include "rgpud/host/driver.h"
#include "rgpud/host/energy_book.h"
#include "util/config.h"
#include "util/fd.h"
#include "util/periodic.h"

namespace rgpu::serverd {

class EnergyWatch {
public:
    // All must outlive it.
    EnergyWatch(const RgpudConfig &config, const Driver &driver, EnergyBook &book)
        : config_(config), driver_(driver), book_(book)
    {}
    ~EnergyWatch() { stop(); }
    EnergyWatch(const EnergyWatch &) = delete;

    void start();
    // The process has ended when it returns.
    void stop();

private:
    void look();
    Result<void> begin();
    Result<std::string> ask();
    void end_process();

    const RgpudConfig &config_;
    const Driver &driver_;
    EnergyBook &book_;
    pid_t pid_ = 0;  // 0: it does not run
    Fd questions_, answers_;
    Time next_start_{};
    bool over_ = false;      // there is no NVML
    std::string complaint_;  // the last one in the log
    Periodic looking_;       // last: it ends before what it uses
};

// What a line of the process says, into the book. False: it is no such line.
bool read_energy_line(const std::string &line, Time at, EnergyBook &book);

}  // namespace rgpu::serverd
