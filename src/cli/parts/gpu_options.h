// SPDX-License-Identifier: Apache-2.0
// The options that say what GPUs are wanted and how long to wait for them: those of rgpu run and
// rgpu request.
#pragma once

#include <string>
#include <vector>

#include "cli/parts/command.h"
#include "pool/client/acquire.h"

namespace rgpu::cli {

class GpuOptions {
public:
    void add(CLI::App &app);
    // Fails with `invalid` and the option's name. The wait is the configuration's unless --wait
    // says otherwise.
    Result<pool::Request> request(const ClientConfig &config, pool::Wait &wait) const;
    // From here on the client asks the servers of --server, and with --span for GPUs of several.
    // Fails with `invalid`.
    Result<void> choose(pool::Client &client) const;
    // Tells why nothing was granted; returns the exit status for it. The client is asked whether
    // GPUs of several servers would do.
    int told_without_lease(const pool::Outcome &outcome, Milliseconds limit, pool::Client &client,
                           const pool::Request &request) const;

private:
    Result<pool::GpuFilter> filters() const;

    int gpus_ = 1;
    bool span_ = false;
    std::string share_, memory_, wait_, least_memory_, compute_capability_, cuda_, driver_;
    std::vector<std::string> servers_, names_, uuids_;
};

// This process, as the owner of what it asks for.
pool::Owner own_process();

// Asks until GPUs are granted, saying on stderr what is waited for: a line, and on a terminal the
// time and a bar that fills. A signal that came meanwhile ends it and is told.
struct Acquired {
    Result<pool::Outcome> outcome;
    std::optional<int> signal;
};
Acquired acquire_showing(pool::Client &client, const pool::Request &request, pool::Wait wait);

}  // namespace rgpu::cli
