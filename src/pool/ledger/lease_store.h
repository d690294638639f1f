// SPDX-License-Identifier: Apache-2.0
// Where leases and drains are kept so that they outlive rgpud: the seam for SQLite.
#pragma once

#include <string>
#include <vector>

#include "pool/messages/messages.h"
#include "util/result.h"

namespace rgpu::pool {

// put() and the erasing ones are on the disk when they return; what they fail with undoes the
// change.
class LeaseStore {
public:
    virtual ~LeaseStore() = default;
    virtual Result<void> put(const Lease &lease) = 0;
    virtual Result<void> erase(const std::string &id) = 0;
    virtual Result<std::vector<Lease>> load() = 0;

    virtual Result<void> put(const Drain &drain) = 0;
    virtual Result<void> erase_drain(const std::string &gpu) = 0;
    virtual Result<std::vector<Drain>> load_drains() = 0;
};

// Keeps nothing: leases end with rgpud.
class VolatileStore : public LeaseStore {
public:
    Result<void> put(const Lease &) override { return {}; }
    Result<void> erase(const std::string &) override { return {}; }
    Result<std::vector<Lease>> load() override { return std::vector<Lease>{}; }
    Result<void> put(const Drain &) override { return {}; }
    Result<void> erase_drain(const std::string &) override { return {}; }
    Result<std::vector<Drain>> load_drains() override { return std::vector<Drain>{}; }
};

}  // namespace rgpu::pool
