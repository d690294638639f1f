// SPDX-License-Identifier: Apache-2.0
// What Prometheus sees of this rgpud at /metrics. Users and jobs are named only where the
// administrator wants that.
#pragma once

#include <memory>
#include <string>

#include "rgpud/leases/service.h"

namespace rgpu::serverd {

// Any thread may call.
class Metrics {
public:
    // names: leases say whose they are.
    explicit Metrics(bool names);
    ~Metrics();

    void control_request(int status);
    void handshake_refused();

    // The text format, with how the service and the GPUs' tenants stand now. Each series has the
    // label `server`.
    std::string text(const Service::Status &status, const std::vector<Boards::Gpu> &boards);

private:
    struct State;
    const bool names_;
    std::unique_ptr<State> state_;
};

}  // namespace rgpu::serverd
