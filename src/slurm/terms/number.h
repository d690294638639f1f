// SPDX-License-Identifier: Apache-2.0
// Counts as Slurm's commands print them.
#pragma once

#include <charconv>
#include <string_view>

namespace rgpu::slurm {

// The number that a text begins with; 0 where that is none.
inline unsigned long number_of(std::string_view text)
{
    unsigned long value = 0;
    std::from_chars(text.data(), text.data() + text.size(), value);
    return value;
}

}  // namespace rgpu::slurm
