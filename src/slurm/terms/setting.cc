// SPDX-License-Identifier: Apache-2.0
#include "slurm/terms/setting.h"

#include <algorithm>

#include "util/next_token.h"

namespace rgpu::slurm {

std::string setting(std::string_view shown, std::string_view name)
{
    while (!shown.empty()) {
        std::string_view line = next_token(shown, "\n");
        size_t equals = line.find('=');
        if (equals == line.npos) continue;
        std::string_view key = line.substr(0, equals);
        key = key.substr(0, std::min(key.find_last_not_of(' ') + 1, key.find('[')));
        if (key == name) {
            std::string_view value = line.substr(equals + 1);
            value.remove_prefix(std::min(value.find_first_not_of(' '), value.size()));
            return std::string(value);
        }
    }
    return {};
}

}  // namespace rgpu::slurm
