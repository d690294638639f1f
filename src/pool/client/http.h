// SPDX-License-Identifier: Apache-2.0
// HTTP requests in the clear, many at once: the control API's client's own transport.
//
// Sockets and waiting are ours, what HTTP means is Boost.Beast's, which is headers alone: a prolog
// starts for every job, and the libraries behind libcurl cost it 6 ms of 8. In TLS: https.h.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "util/fd.h"
#include "util/result.h"
#include "util/units.h"

namespace rgpu::pool {

struct HttpCall {
    std::string method;                  // "GET", "POST", "DELETE"
    std::string address;                 // host:port
    std::string target;                  // "/v1/..."
    std::string authorization;           // empty: none
    std::string body;                    // JSON; POST only
    std::string node_config;             // the header Rgpu-Node-Config; empty: none
    std::string pin = {}, ca_file = {};  // as a ServerEntry's: Https alone

    bool in_tls() const { return !pin.empty() || !ca_file.empty(); }
};

struct HttpReply {
    unsigned status = 0;
    std::string body;  // at most defaults::kMaxReplyBody
};

// One thread at a time. Connections are kept for the next perform(), as many as half of the limit
// of open files. perform() raises that limit where it is too low for its calls, until it returns.
// Proxies are not used.
class Http {
public:
    // Replies in the calls' order, within `timeout` all together. Each fails by itself, with
    // `disconnected` and the cause.
    std::vector<Result<HttpReply>> perform(const std::vector<HttpCall> &calls,
                                           Milliseconds timeout);

private:
    std::multimap<std::string, Fd> kept_;  // by address, idle
};

}  // namespace rgpu::pool
