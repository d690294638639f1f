// SPDX-License-Identifier: Apache-2.0
// Owners, parts of GPUs and leases as JSON objects: the parts of several messages.
#pragma once

#include <vector>

#include "pool/messages/fields.h"
#include "pool/messages/messages.h"

namespace rgpu::pool {

Json to_json(const Owner &owner);
Owner read_owner(Reader &reader);
Json to_json(const std::vector<Portion> &portions);
Result<void> read_portion(const Json &json, std::vector<Portion> &portions);
Json to_json(const Lease &lease);
Result<void> read_lease(const Json &json, std::vector<Lease> &leases);
Json to_json(const std::vector<Lease> &leases);

}  // namespace rgpu::pool
