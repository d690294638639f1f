// SPDX-License-Identifier: Apache-2.0
// An error as the JSON of a reply (doc/api.md).
#pragma once

#include <string>
#include <string_view>

#include "util/result.h"

namespace rgpu::pool {

// {"error": {"kind": "invalid", "text": "..."}}
std::string encode_error(const Error &error);
// The error of a reply; what is no such JSON becomes `disconnected` with the HTTP status.
Error decode_error(std::string_view json, long status);

}  // namespace rgpu::pool
