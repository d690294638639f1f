// SPDX-License-Identifier: Apache-2.0
// Who asks: the credential that each control request carries, made and checked here.
//
// A credential is bound to the server's name, the method, the target (path and query) and a
// digest of the body, so that none can be used for anything else, and it is good once:
//   Authorization: MUNGE <credential>                 method "munge": munged refuses a replay
//   Authorization: RGPU-KEY <time> <nonce> <hmac>     method "key": the verifier refuses it, and
//   the next one, too (used_nonces.h)
// With "key", whoever has the key may do everything; so may everyone with "none", which is why a
// server takes that only on loopback.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "pool/ledger/ledger.h"
#include "util/config.h"
#include "util/result.h"

namespace rgpu::pool {

// What a credential is bound to.
struct SignedCall {
    std::string server;  // its name, [[server]] name or [rgpud] name
    std::string method;
    std::string target;
    std::string_view body;
};

// Any thread may call sign() and verify().
class Signer {
public:
    virtual ~Signer() = default;
    // The value of the Authorization header; empty: none is needed.
    virtual Result<std::string> sign(const SignedCall &call) = 0;
};

class Verifier {
public:
    virtual ~Verifier() = default;
    // Fails with `invalid` and a sentence for the asker; `unavailable` when munged does not answer.
    virtual Result<Caller> verify(std::string_view authorization, const SignedCall &call) = 0;
    // From now on the credentials of method "key" that were used stand in this file, and outlive
    // the process.
    virtual Result<void> remember_in(const std::string &) { return {}; }
};

Result<std::unique_ptr<Signer>> make_signer(const AuthConfig &config);

// Names under [auth] admins that this host does not know are added to `unknown_admins`. `memory`:
// as Verifier::remember_in(); empty: used credentials are forgotten with the process.
Result<std::unique_ptr<Verifier>> make_verifier(const AuthConfig &config,
                                                std::vector<std::string> &unknown_admins,
                                                const std::string &memory = {});

// Whether a server with this configuration takes that user for an administrator.
bool is_admin(const AuthConfig &config, uint32_t uid);

}  // namespace rgpu::pool
