// SPDX-License-Identifier: Apache-2.0
// What the driver says of this host's GPUs: the snapshot for a client, the inventory for rgpud.
#pragma once

#include <string>

#include "wire/snapshot.h"

namespace rgpu::worker {

// Asks the driver everything that does not change. `server` is this server's name; empty: the
// host's.
Result<wire::Snapshot> take_snapshot(const std::string &server = "");

// What may have changed since it was taken: the lease may have another size.
void renew(wire::Snapshot &);

// Adds the calls of this side's table, in order, and which of them it carries out: what a client
// needs whose table is another.
void name_calls(wire::Snapshot &);

// {"driver_version":13000,"driver_release":"580.95.05",
//  "gpus":[{"index":0,"uuid":"GPU-...","name":"...","memory":...,
//  "compute_capability":"8.0","pci":"0000:01:00.0","stream_memory_ops":1,"host_pointers":1,
//  "fixed_addresses":true}]} and a newline.
Result<std::string> inventory_json();

}  // namespace rgpu::worker
