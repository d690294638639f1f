// SPDX-License-Identifier: Apache-2.0
// Slurm's licence strings ("matlab:1,rgpu:200"), and the part of them that is the pool's.
//
// The pool is sold in hundredths of a GPU: two whole GPUs are rgpu:200. Where Slurm also sells
// rgpu_TYPE, a job that can only have GPUs of that type takes as many of these: rgpu:200,
// rgpu_a100:200. A GPU is of a type whose name is a part of the GPU's (terms/filters.h).
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "util/result.h"

namespace rgpu::slurm {

// What the licences of all GPUs of a job are: gpus on each of nodes, share percent of each. A share
// that begins at 0 costs one, too: by its licences the prolog knows how many GPUs a job has.
unsigned long licences_for(unsigned gpus, unsigned share, unsigned nodes);

// The part of a licence string that is the pool's.
struct OwnLicences {
    unsigned long sum = 0;                       // of rgpu
    std::map<std::string, unsigned long> types;  // of rgpu_TYPE, by TYPE; none with 0
    bool operator==(const OwnLicences &) const = default;
};
OwnLicences own_licences(std::string_view licences);

// All of one type, or of several that are the same GPUs.
OwnLicences all_of_types(unsigned long sum, const std::vector<std::string> &types);

// "a100,h100": the names of what Slurm sells beside rgpu.
std::vector<std::string> types_sold(std::string_view licences);

// "rgpu:200,rgpu_a100:200"; empty for nothing.
std::string to_text(const OwnLicences &own);

// The count of rgpu in a licence string: 0 where it is not named, 1 where it has no count.
// A count that is no number reads as 0.
unsigned long rgpu_licences(std::string_view licences);

// True where rgpu or one of its types is named at all, also on another server ("rgpu@db:0").
bool names_rgpu(std::string_view licences);

// The same string with the pool's part replaced by this. Fails with ErrorKind::invalid for
// alternatives ("a|b"): the pool's licences are never one of several.
Result<std::string> with_rgpu(std::string_view licences, const OwnLicences &own);

}  // namespace rgpu::slurm
