// SPDX-License-Identifier: Apache-2.0
// Which Slurm rgpu's plugins were built for, and which one is here: Slurm loads no plugin of
// another version.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "util/result.h"

namespace rgpu::slurm {

// As Slurm counts them: 22.05.8 is 0x160508.
using SlurmVersion = uint32_t;

// "slurm-wlm 22.05.8" or "22.05.8", with what may follow ("24.11.0-0rc1").
std::optional<SlurmVersion> parse_slurm_version(std::string_view text);
std::string to_text(SlurmVersion version);

// Whether Slurm `running` loads a plugin of this version: SPANK plugins may be of another micro
// version (_verify_syms in src/common/plugin.c).
bool slurm_loads(SlurmVersion running, SlurmVersion plugin, bool spank);

// Before 23.11, SelectType is select/linear where slurm.conf does not say it.
bool selects_linear(SlurmVersion running);

// The plugin_version in the bytes of a shared object (ELF, 64 bits); nothing where there is none.
std::optional<SlurmVersion> plugin_version_in(std::string_view object);
// ... in a file. Fails with `unavailable` where there is no such file, `invalid` where it is no
// plugin.
Result<SlurmVersion> plugin_version_of(const std::string &path);

}  // namespace rgpu::slurm
