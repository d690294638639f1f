// SPDX-License-Identifier: Apache-2.0
// HTTP requests in TLS 1.3, many at once: the control API's client's transport to servers whose
// [[server]] has a pin or ca_file. libcurl does them, which is opened for the first one.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "pool/client/http.h"

namespace rgpu::pool {

// One thread at a time. Connections are kept for the next perform(). Proxies are not used.
class Https {
public:
    Https();
    Https(Https &&) noexcept;
    Https &operator=(Https &&) noexcept;
    ~Https();

    // Replies in the calls' order, within `timeout` all together; each call has a pin or ca_file.
    // Each fails by itself: with `disconnected` and the cause, or with `invalid` where the server
    // is not who it must be.
    std::vector<Result<HttpReply>> perform(const std::vector<HttpCall> &calls,
                                           Milliseconds timeout);

private:
    struct Multi;
    std::unique_ptr<Multi> multi_;
};

// The pin of the key that the server at host:port presents, believed as it is. Fails with
// `disconnected` and the cause.
Result<std::string> presented_pin(const std::string &address, Milliseconds timeout);

}  // namespace rgpu::pool
