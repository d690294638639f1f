// SPDX-License-Identifier: Apache-2.0
#include "pool/messages/fields.h"

#include <cmath>

namespace rgpu::pool {

std::string dump(const Json &json, int indent)
{
    return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

double rounded(double value) { return std::round(value * 1e6) / 1e6; }

std::string printable(std::string text, size_t most)
{
    text.resize(std::min(text.size(), most));
    for (char &c : text)
        if (c < 0x20 || c > 0x7e) c = '?';
    return text;
}

}  // namespace rgpu::pool
