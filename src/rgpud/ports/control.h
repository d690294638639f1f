// SPDX-License-Identifier: Apache-2.0
// The control port: HTTP + JSON (doc/api.md), every request authenticated and checked.
#pragma once

#include <memory>

#include "pool/credentials/auth.h"
#include "rgpud/leases/service.h"
#include "rgpud/ports/metrics.h"
#include "rgpud/ports/tls_identity.h"

namespace rgpu::serverd {

// Listens from bind() on, serves from start() on, in threads of its own, until stop().
class Control {
public:
    // All must outlive it. Without an identity it speaks no TLS.
    Control(const RgpudConfig &config, Service &service, pool::Verifier &verifier, Metrics &metrics,
            Audit &audit, TlsIdentity *identity);
    ~Control();

    // Returns the port. Fails with the address in the text.
    Result<int> bind();
    Result<void> start();
    void stop();

private:
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace rgpu::serverd
