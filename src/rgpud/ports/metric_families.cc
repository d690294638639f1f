// SPDX-License-Identifier: Apache-2.0
#include "rgpud/ports/metric_families.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>

namespace rgpu::serverd {

void MetricFamilies::gauge(const char *name, const char *help, const Labels &labels, double value)
{
    prometheus::BuildGauge().Name(name).Help(help).Register(registry_).Add(labels).Set(value);
}

void MetricFamilies::counter(const char *name, const char *help, const Labels &labels, double value)
{
    prometheus::BuildCounter().Name(name).Help(help).Register(registry_).Add(labels).Increment(
        value);
}

}  // namespace rgpu::serverd
