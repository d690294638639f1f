// SPDX-License-Identifier: Apache-2.0
// How many nodes a job has, as its licences count them: job_submit writes it into the job, Slurm's
// scripts read it there.
#pragma once

#include <string>
#include <string_view>

namespace rgpu::slurm {

// Where they stand, in a job's control environment (SPANK_RGPU_NODES to Slurm's scripts) and in
// that of its batch script.
constexpr const char *kNodesMark = "RGPU_NODES";

// Beside it: the types whose licences the job took at submit, with commas.
constexpr const char *kTypesMark = "RGPU_TYPES";
// In that of a job of salloc.
constexpr const char *kSallocMark = "RGPU_SALLOC";

// The nodes that a job's licences were counted for. Of a range the licences are those of `most`
// until the controller's prolog knows the nodes (rgpu slurm prolog lowers them, the epilog of a
// requeued job raises them again).
struct Nodes {
    unsigned least = 0, most = 0;  // 0: the job was submitted without rgpu
    bool range() const { return most > least; }
};

// Whether any node has GPUs of its own, in what sinfo prints of their GRES
// ("gpu:a100:2(S:0),rgpu:8", one line for nodes that are alike).
bool names_node_gpus(std::string_view printed);

// "2", "1-4"; what is neither is no nodes.
Nodes parse_nodes(std::string_view text);
std::string to_text(const Nodes &nodes);

}  // namespace rgpu::slurm
