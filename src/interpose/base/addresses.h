// SPDX-License-Identifier: Apache-2.0
// The PCI addresses that programs see for leased GPUs (util/pci_address.h), by UUID.
#pragma once

#include <vector>

#include "interpose/base/lease.h"
#include "wire/snapshot.h"

namespace rgpu::interpose {

// Gives the devices of a server's snapshot the addresses of its leased GPUs, in their attributes,
// too.
void readdress(wire::Snapshot &, const std::vector<LeasedGpu> &);

}  // namespace rgpu::interpose
