// SPDX-License-Identifier: Apache-2.0
// The health checks of the way from this host to a server.
#pragma once

#include <string>
#include <vector>

#include "health/check.h"
#include "pool/client/client.h"
#include "util/config.h"

namespace rgpu::cli {

// What is looked at: a server, and what this host knows.
struct Path {
    const ServerEntry &server;
    pool::Client &client;
    Milliseconds timeout;  // [client] server_timeout
    const std::vector<std::string> &library_path;
    health::Limits limits;
};

// Connects, asks and measures; what needs an answer that did not come is SKIPPED with the reason.
// Takes some round trips, and the time of a few MiB.
health::Findings look_at_path(const Path &path);

}  // namespace rgpu::cli
