// SPDX-License-Identifier: Apache-2.0
// Who looks at the page, and what that allows: plain data.
#pragma once

#include <cstdint>
#include <string>

#include "pool/messages/messages.h"

namespace rgpu::web {

inline std::string name_of(const pool::Owner &owner)
{
    return owner.user.empty() ? "uid " + std::to_string(owner.uid) : owner.user;
}

struct Viewer {
    std::string user;  // empty: whoever has the token, where nobody names users
    uint32_t uid = 0;  // with user
    bool all = false;  // sees all that rgpu web itself is told

    bool sees(const pool::Owner &owner) const { return all || owner.uid == uid; }
    // The name of the stream of events for all windows of this viewer.
    std::string stream() const
    {
        return user.empty() ? "all" : (all ? "all as uid " : "uid ") + std::to_string(uid);
    }
};

}  // namespace rgpu::web
