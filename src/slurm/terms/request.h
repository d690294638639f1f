// SPDX-License-Identifier: Apache-2.0
// What a job asks of the pool, read from the strings in which Slurm carries it.
//
// Knows no Slurm type, so that the plugins, the command and the tests share it. Input comes from
// users: every function answers anything at all with a value or with ErrorKind::invalid and a
// sentence that names the option.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "slurm/terms/filters.h"
#include "util/result.h"

namespace rgpu::slurm {

// A part of a GPU's time, in percent: what is guaranteed, and what may be used while others idle.
struct Share {
    unsigned least = 100;
    unsigned most = 100;
};

// Has no value: that it was given is all.
inline constexpr const char *kSpanOption = "rgpu-span";

struct Request {
    unsigned gpus = 0;  // on each node
    bool span = false;  // those of a node may be of several servers
    Share share;
    std::optional<uint64_t> memory;  // bytes on each GPU; without it the share's part of the GPU's
    std::string type;                // of rgpu:TYPE:N; a part of the GPU's name (name_of_type)
    Filters filters;
};

struct TresGpus {
    unsigned count = 0;
    std::string type;  // empty without
};

// The GPUs that a TRES list names: "gres:rgpu:2,gres:gpu:1" gives 2, "gres:rgpu" 1,
// "gres:rgpu:h100:2" 2 of type h100, a list without rgpu (or "gres:none") 0. Slurm writes gres:NAME
// up to 22.05 and gres/NAME later. One type a list. `gres`: those of another GRES.
Result<TresGpus> gpus_in_tres(std::string_view tres, std::string_view gres = "rgpu");

// --rgpu-share: "50", "50%" (never less, never more), "30-100", or "0-100" (only what others
// leave).
Result<Share> parse_share(std::string_view text);

// --rgpu-mem: a number with its unit, "512M", "8G", "8GiB".
Result<uint64_t> parse_memory(std::string_view text);

// The variable in which SPANK carries the value of an option, "rgpu-share", to job_submit; Slurm's
// prologs see it with SPANK_ in front.
std::string option_variable(std::string_view option);

// "8 GiB", "1536 MiB": the largest unit that loses nothing.
std::string memory_text(uint64_t bytes);

}  // namespace rgpu::slurm
