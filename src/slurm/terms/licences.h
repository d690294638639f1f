// Slurm's licence strings ("matlab:1,rgpu:200"), and the part of them that is the pool's.
//
// The pool is sold in hundredths of a GPU: two whole GPUs are rgpu:200.
#pragma once

#include <string>
#include <string_view>

#include "util/result.h"

namespace rgpu::slurm {

// What the licences of all GPUs of a job are: gpus on each of nodes, share percent of each. A share
// that begins at 0 costs one, too: by its licences the prolog knows how many GPUs a job has.
unsigned long licences_for(unsigned gpus, unsigned share, unsigned nodes);

// The count of rgpu in a licence string: 0 where it is not named, 1 where it has no count.
// A count that is no number reads as 0.
unsigned long rgpu_licences(std::string_view licences);

// True where rgpu is named at all, also on another server ("rgpu@db:0").
bool names_rgpu(std::string_view licences);

// The same string with rgpu's part replaced by this count (and left out for 0). Fails with
// ErrorKind::invalid for alternatives ("a|b"): the pool's licences are never one of several.
Result<std::string> with_rgpu(std::string_view licences, unsigned long count);

}  // namespace rgpu::slurm
