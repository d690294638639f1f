// SPDX-License-Identifier: Apache-2.0
// Aligned columns on a terminal.
#pragma once

#include <string>
#include <vector>

namespace rgpu::cli {

// Rows of cells; the first row is the heading. Columns are as wide as their widest cell, two
// spaces apart; the last is not padded.
std::string table(const std::vector<std::vector<std::string>> &rows);

}  // namespace rgpu::cli
