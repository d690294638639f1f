// SPDX-License-Identifier: Apache-2.0
// Changes to rgpu.conf that leave all else of the file as it stands, comments and order too.
#pragma once

#include <string>
#include <vector>

#include "util/config.h"
#include "util/result.h"

namespace rgpu::cli {

struct ConfPin {
    std::string server, pin;
};

// The text with these pins, one line each. Fails with `invalid` where the text cannot be changed
// so: a [[server]] in one line.
Result<std::string> with_pins(const std::string &text, const Config &read,
                              const std::vector<ConfPin> &pins);

// The same with the file that `config` was read from, replaced whole: owner and mode stay.
Result<void> write_pins(const Config &config, const std::vector<ConfPin> &pins);

}  // namespace rgpu::cli
