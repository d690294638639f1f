// SPDX-License-Identifier: Apache-2.0
// Releases of NVIDIA's driver as nvmlSystemGetDriverVersion tells them: "580.95.05".
#pragma once

#include <string_view>

namespace rgpu {

// One to four numbers of at most six digits, with dots between them.
bool is_driver_release(std::string_view text);

// The first comes before the second, number by number: 570.9 before 570.86.10, 570 neither before
// nor behind 570.0. What is no release comes before every one.
bool is_older_release(std::string_view a, std::string_view b);

}  // namespace rgpu
