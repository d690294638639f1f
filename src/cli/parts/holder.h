// SPDX-License-Identifier: Apache-2.0
// A connection that says that whoever holds a lease is alive: when it closes, the lease ends soon.
#pragma once

#include "pool/messages/messages.h"
#include "util/fd.h"

namespace rgpu::cli {

class Holder {
public:
    // Connects at once; the grant must outlive it. Where that fails the lease lives by its term
    // alone.
    explicit Holder(const pool::Grant &grant) : grant_(grant) { connect(); }

    void connect();
    // False: the server closed it, or it never was.
    bool is_there() const;

private:
    const pool::Grant &grant_;
    Fd socket_;
};

}  // namespace rgpu::cli
