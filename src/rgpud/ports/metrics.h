// What Prometheus sees of this rgpud at /metrics: counts, no names of users or jobs.
#pragma once

#include <memory>
#include <string>

#include "rgpud/leases/service.h"

namespace rgpu::serverd {

// Any thread may call.
class Metrics {
public:
    Metrics();
    ~Metrics();

    void control_request(int status);
    void handshake_refused();

    // The text format, with what the service counts now, and how the GPUs' tenants stand.
    std::string text(const Service::Count &count, const std::vector<Boards::Gpu> &boards);

private:
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace rgpu::serverd
