// SPDX-License-Identifier: Apache-2.0
// The health checks of a host: a table of small functions. doc/health.md says what each means.
#pragma once

#include <string>
#include <vector>

#include "health/host.h"
#include "pool/messages/messages.h"

namespace rgpu::health {

using pool::Finding;
using pool::Verdict;

// What a check finds: one for the host, or one for each GPU, network interface ... (`of` names it).
// The name is filled in by examine().
using Findings = std::vector<Finding>;

struct Check {
    const char *name;  // as in [rgpud] health_ignore
    enum Where { everywhere, servers, clients } where;
    Findings (*look)(const Host &);
};

// Every check, in the order in which they are shown. A new one is a function and a line here
// (checks.cc).
const std::vector<Check> &checks();

// All that concern this host. Takes milliseconds, reads files only.
Findings examine(const Host &host);

// Whether a host can lend the GPUs that rgpu.conf says it lends: asked on the host itself, where
// rgpud may not run for that very reason. `driver` is [rgpud] driver.
Finding configured_driver(const Host &host, const std::string &driver);

// --- what a check says

Finding pass(std::string of, std::string value, std::string limit = {});
Finding info(std::string of, std::string value, std::string cure = {});
Finding skipped(std::string of, std::string why);
Finding marginal(std::string of, std::string value, std::string limit, std::string cure);
Finding fatal(std::string of, std::string value, std::string limit, std::string cure);

// Of a value that should not be smaller than these two.
Verdict at_least(double value, double marginal, double fatal = -1);
Verdict at_most(double value, double marginal, double fatal = 1e300);

// "1.5 GiB", "unlimited" for the largest number.
std::string size_text(uint64_t bytes);
std::string number_text(double value, const char *unit = "");

// --- those of each group (the table lists them)

// resources.cc
Findings open_files(const Host &);
Findings locked_memory(const Host &);
Findings shared_memory(const Host &);
Findings disk(const Host &);
Findings memory(const Host &);
Findings libraries(const Host &);
Findings host_memory(const Host &);
Findings users_libraries(const Host &);
Findings settings(const Host &);
// network.cc
Findings mtu(const Host &);
Findings link_speed(const Host &);
Findings network_errors(const Host &);
// gpus.cc
Findings driver(const Host &);
Findings driver_release(const Host &);
Findings cuda(const Host &);
Findings gpu_count(const Host &);
Findings stream_memory_operations(const Host &);
Findings host_pointers(const Host &);
Findings pcie_width(const Host &);
Findings pcie_generation(const Host &);
Findings ecc(const Host &);
Findings xid(const Host &);
Findings temperature(const Host &);
Findings compute_mode(const Host &);
Findings persistence(const Host &);
Findings p2p(const Host &);

}  // namespace rgpu::health
