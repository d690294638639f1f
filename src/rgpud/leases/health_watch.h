// SPDX-License-Identifier: Apache-2.0
// Looks at this host's health again and again: a server that fails a FATAL check lends nothing
// until it passes again.
//
// What is leased stays leased. Checks in [rgpud] health_ignore are made and told, and never close
// the server.
#pragma once

#include "health/check.h"
#include "rgpud/leases/service.h"
#include "util/periodic.h"

namespace rgpu::serverd {

// What NVML says of the host's GPUs, asked by the worker program: rgpud itself opens no driver.
health::Readings read_gpus(const RgpudConfig &config, const Driver &driver);

// nvlinks(...)[a][b]: NVLink joins GPUs a and b of the driver's inventory; empty where NVML does
// not tell.
std::vector<std::vector<int>> nvlinks(const RgpudConfig &config, const Driver &driver);

class HealthWatch {
public:
    // Both must outlive it.
    HealthWatch(const RgpudConfig &config, Service &service) : config_(config), service_(service) {}

    // The first look is over when it returns, so that a sick server lends nothing at first. Does
    // nothing where [rgpud] health_check is 0.
    void start();
    void stop() { looking_.stop(); }

private:
    void look();

    const RgpudConfig &config_;
    Service &service_;
    std::string closed_;  // why, since the last look
    Periodic looking_;    // last: it ends before what it looks at
};

}  // namespace rgpu::serverd
