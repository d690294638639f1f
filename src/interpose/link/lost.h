// SPDX-License-Identifier: Apache-2.0
// Why a server's connection has ended.
#pragma once

#include <string>

namespace rgpu::interpose {

// `server` as people are told of it: "gpu1 (gpu1:7711)". Asks that server, for two seconds at most.
std::string why_lost(const std::string &server);

}  // namespace rgpu::interpose
