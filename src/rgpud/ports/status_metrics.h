// SPDX-License-Identifier: Apache-2.0
// How the server, its GPUs, leases and tenants stand, as Prometheus families.
#pragma once

#include <vector>

#include "rgpud/leases/service.h"
#include "rgpud/ports/metric_families.h"

namespace rgpu::serverd {

// With `names`, leases say whose they are: jobs, users, accounts and nodes.
void add_status(MetricFamilies &families, const Service::Status &status, bool names);
// The tenants of each GPU.
void add_tenants(MetricFamilies &families, const std::vector<Boards::Gpu> &boards);

}  // namespace rgpu::serverd
