// The PCI addresses that programs see for leased GPUs (util/pci_address.h), by UUID.
#pragma once

#include <map>
#include <string>

#include "wire/snapshot.h"

namespace rgpu::interpose {

using Addresses = std::map<std::string, std::string>;

// Of this process's lease file; empty where it cannot be read.
Addresses read_addresses();

// Gives the devices of a server's snapshot these addresses, in their attributes, too.
void readdress(wire::Snapshot &, const Addresses &);

}  // namespace rgpu::interpose
