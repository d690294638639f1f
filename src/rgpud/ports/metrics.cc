// SPDX-License-Identifier: Apache-2.0
#include "rgpud/ports/metrics.h"

#include <prometheus/counter.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include "rgpud/ports/status_metrics.h"

namespace rgpu::serverd {

struct Metrics::State {
    prometheus::Registry registry;
    prometheus::Counter &refused = prometheus::BuildCounter()
                                       .Name("rgpu_handshakes_refused_total")
                                       .Help("Data connections refused")
                                       .Register(registry)
                                       .Add({});
    prometheus::Family<prometheus::Counter> &requests = prometheus::BuildCounter()
                                                            .Name("rgpu_control_requests_total")
                                                            .Help("Control requests by HTTP status")
                                                            .Register(registry);
};

Metrics::Metrics(bool names) : names_(names), state_(std::make_unique<State>()) {}
Metrics::~Metrics() = default;

void Metrics::control_request(int status)
{
    state_->requests.Add({{"status", std::to_string(status)}}).Increment();
}

void Metrics::handshake_refused() { state_->refused.Increment(); }

std::string Metrics::text(const Service::Status &status, const std::vector<Boards::Gpu> &boards)
{
    MetricFamilies now;
    add_status(now, status, names_);
    add_tenants(now, boards);
    auto families = state_->registry.Collect();
    for (auto &family : now.collect()) families.push_back(std::move(family));
    // Whoever joins over several servers needs the name that rgpu list shows.
    for (auto &family : families)
        for (auto &metric : family.metric) metric.label.push_back({"server", status.server});
    return prometheus::TextSerializer().Serialize(families);
}

}  // namespace rgpu::serverd
