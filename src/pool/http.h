// HTTP requests, many at once (libcurl multi): the control API's client's own transport.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "util/result.h"
#include "util/units.h"

namespace rgpu::pool {

struct HttpCall {
    std::string method;  // "GET", "POST", "DELETE"
    std::string url;
    std::string authorization;  // empty: none
    std::string body;           // JSON; POST only
    std::string node_config;    // the header Rgpu-Node-Config; empty: none
};

struct HttpReply {
    long status = 0;
    std::string body;  // at most defaults::kMaxReplyBody
};

// One thread at a time. Connections are kept for the next perform(). Proxies are not used.
class Http {
public:
    Http();
    ~Http();
    Http(const Http &) = delete;
    Http &operator=(const Http &) = delete;

    // Replies in the calls' order. Each fails by itself, with `disconnected` and what libcurl says.
    std::vector<Result<HttpReply>> perform(const std::vector<HttpCall> &calls,
                                           Milliseconds timeout);

private:
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace rgpu::pool
