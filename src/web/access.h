// SPDX-License-Identifier: Apache-2.0
// Who may see what: the token, the user's name that a proxy gives, and the name under which the
// page was asked for.
//
// Any process of the host can connect to the page's port, and any page in a user's browser can have
// that browser do so. So nothing is told without the token, which no cookie carries. A name is
// believed with the token alone, as that is the proxy's.
#pragma once

#include <string>
#include <vector>

#include "util/config.h"
#include "util/result.h"
#include "web/data/viewer.h"
#include "web/http/server.h"

namespace rgpu::web {

class Access {
public:
    // Reads [web] token_file, or makes a token where there is none. Fails with `invalid` where the
    // file is missing, short or open to others, or where [web] user_header has no token_file.
    static Result<Access> create(const Config &config);

    const std::string &token() const { return token_; }
    // Whether the token is one of this start alone, which has to be told.
    bool made_token() const { return made_; }

    // Whether the request names this host, or one of [web] hosts: a page of another site that has
    // its own name point here (DNS rebinding) does not. `invalid` with what to do.
    Result<void> right_host(const Asked &asked) const;
    // Who asks. `invalid`: no token or a wrong one; `unsupported`: the proxy names nobody whom
    // this host knows.
    Result<Viewer> viewer_of(const Asked &asked) const;

private:
    std::string token_;
    bool made_ = false;
    std::string user_header_;
    std::vector<std::string> hosts_, admins_;
};

}  // namespace rgpu::web
