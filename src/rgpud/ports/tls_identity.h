// SPDX-License-Identifier: Apache-2.0
// The control port's identity: a private key, its certificate, and TLS 1.3 (RFC 8446) with both.
//
// By default the key is rgpud's own: made at the first start, kept in state_dir/control.key (mode
// 0600). Its certificate says nothing that a client believes; clients know the key by its pin
// (pool/credentials/server_key.h). A site with a certificate authority names its own files
// ([rgpud] tls_certificate, tls_key).
//
// Another key that is put in the place of the file's serves new connections within a second,
// without a restart.
#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "util/clock.h"
#include "util/config.h"
#include "util/file_state.h"
#include "util/result.h"

struct ssl_ctx_st;  // OpenSSL's

namespace rgpu::serverd {

class TlsIdentity {
public:
    // Makes the key where it is rgpud's own and there is none. Fails with `invalid`, naming the
    // file, where a file cannot be read, or certificate and key do not belong together.
    static Result<std::unique_ptr<TlsIdentity>> open(const RgpudConfig &config);

    // What new connections are served with. Any thread.
    std::shared_ptr<ssl_ctx_st> context();
    // The key's pin. Any thread.
    std::string pin();

private:
    struct Files {
        std::string key, certificate;  // no certificate: one is made of the key

        std::string state() const
        {
            const std::string paths[] = {key, certificate};
            return file_state(paths);
        }
    };
    struct Loaded {
        std::shared_ptr<ssl_ctx_st> context;
        std::string pin, state;
    };

    explicit TlsIdentity(Files files) : files_(std::move(files)) {}
    static Result<Loaded> load(const Files &files);

    const Files files_;
    std::mutex mutex_;
    Loaded loaded_;
    Time looked_{};
};

}  // namespace rgpu::serverd
