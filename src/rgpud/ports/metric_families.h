// SPDX-License-Identifier: Apache-2.0
// Prometheus families that are made anew for each scrape: what is not there any more has no series.
#pragma once

#include <prometheus/registry.h>

#include <vector>

namespace rgpu::serverd {

using Labels = prometheus::Labels;

class MetricFamilies {
public:
    void gauge(const char *name, const char *help, const Labels &labels, double value);
    void counter(const char *name, const char *help, const Labels &labels, double value);
    std::vector<prometheus::MetricFamily> collect() { return registry_.Collect(); }

private:
    prometheus::Registry registry_{prometheus::Registry::InsertBehavior::Merge};
};

}  // namespace rgpu::serverd
