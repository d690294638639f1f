// SPDX-License-Identifier: Apache-2.0
// Configuration that differs between nodes: each node's prolog tells digests of what it reads, and
// rgpu slurm check compares them.
#pragma once

#include <string>
#include <vector>

#include "pool/messages/messages.h"
#include "slurm/check/compare.h"
#include "util/config.h"

namespace rgpu::slurm {

// Words PART:DIGEST: rgpu's version, the tables of rgpu.conf that clients read, and rgpu's line of
// plugstack.conf, where $SLURM_CONF names a slurm.conf. What is the same for rgpu has the same
// digest: comments, order and defaults do not count.
std::string config_digests(Config config);

// `told`: of all servers, where a node may be named several times: what it said last counts. `own`:
// what is here, on the controller, which counts as one more node. Nodes that Slurm does not know
// (`known`) are left out.
std::vector<Disagreement> compare_node_configs(const std::vector<pool::NodeConfig> &told,
                                               const std::string &own,
                                               const std::vector<std::string> &known);

}  // namespace rgpu::slurm
