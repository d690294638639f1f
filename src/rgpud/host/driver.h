// SPDX-License-Identifier: Apache-2.0
// Which driver this host's GPUs are used through, and what they are.
#pragma once

#include "pool/messages/inventory_json.h"
#include "rgpud/host/account.h"
#include "rgpud/host/process.h"
#include "serverd/worker_start.h"
#include "util/config.h"
#include "util/result.h"

namespace rgpu::serverd {

struct Driver {
    std::string path;       // RGPU_DRIVER: what rgpu-worker opens
    bool software = false;  // the GPUs are software
    pool::DriverInventory inventory;
};

// Asks the worker program about the configured driver; with "auto", first about NVIDIA's, and
// about the software GPU when that one finds nothing and the host has nothing of NVIDIA's. Makes
// the directories under state_dir. Takes seconds on a host of many GPUs.
Result<Driver> find_driver(const RgpudConfig &config);

// Whether this server's workers take a program's offer of UCX (net/ucx/ucx_offer.h).
bool offers_ucx(const RgpudConfig &config);

// What a worker that may use these GPUs finds in /dev.
std::vector<std::string> worker_devices(const RgpudConfig &config, const Driver &driver,
                                        const std::vector<std::string> &uuids);

// The environment of a worker of this driver, for an account, but for what worker_start() says.
// rgpud's own variables RGPU_SOFTGPU_*, RGPU_UCX_*, RGPU_LOG and RGPU_TRACE go through; nothing
// else does.
Environment worker_environment(const RgpudConfig &config, const Driver &driver,
                               const Account &account);

// What every worker of this driver is told.
WorkerStart worker_start(const RgpudConfig &config, const Driver &driver);

// Where the images of an owner's programs are kept, for workers of this account; made when missing,
// by the spawner where there is one. Owners who share an account do not share images. Empty when it
// cannot be.
std::string make_image_dir(const RgpudConfig &config, uid_t owner, const Account &account);

}  // namespace rgpu::serverd
