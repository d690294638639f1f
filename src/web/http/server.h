// SPDX-License-Identifier: Apache-2.0
// HTTP/1.1 for the page of `rgpu web`: GET and HEAD, and streams of server-sent events.
//
// One thread reads and writes, for all connections; it never waits for one of them. Requests are
// answered in two threads of their own. A request has ten seconds to arrive and 16 KiB of header,
// and brings no body; whoever does not take an answer in ten seconds, or lags by 16 MiB in a
// stream, is closed. Connections are limited, too: where there are too many, the oldest that is no
// stream makes room. It listens on loopback: TLS and other hosts are a proxy's.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "util/result.h"

namespace rgpu::web {

// One request.
struct Asked {
    std::string path, query;  // as sent, without the '?'
    std::vector<std::pair<std::string, std::string>> fields;

    // What all fields of that name hold, whatever its case.
    std::vector<std::string_view> all(std::string_view name) const;
    // Of a parameter of the query, with %XX decoded; empty where there is none.
    std::string parameter(std::string_view name) const;
};

struct Answer {
    int status = 200;
    std::string type = "application/json";
    std::shared_ptr<const std::string> body;
    std::string etag;    // a browser may keep it, and asks whether it is still this; empty: no
    std::string stream;  // not empty: no body, but the events of this stream from now on
};
Answer text(int status, std::string body, std::string type = "application/json");

class Server {
public:
    struct Serve {
        // Called in two threads at once.
        std::function<Answer(const Asked &)> answer;
        // What a new listener of a stream is told first; null: no such stream any more. What is
        // published after its call reaches the listener, too.
        std::function<std::shared_ptr<const std::string>(const std::string &stream)> first;
        // A stream has got its first listener, or lost its last. In the server's thread, as first.
        std::function<void(const std::string &stream, bool listened)> listened;
    };

    explicit Server(Serve serve);
    ~Server();

    // Serves "127.0.0.1:7712" or "[::1]:7712"; returns the port, which is another where it was 0.
    Result<int> start(const std::string &address);
    // Sends whole events, "event: x\ndata: y\n\n", to a stream's listeners. Any thread.
    void publish(const std::string &stream, std::shared_ptr<const std::string> events);
    // Closes all connections; also where it was never started, and again.
    void stop();

private:
    struct State;
    std::shared_ptr<State> state_;
};

}  // namespace rgpu::web
