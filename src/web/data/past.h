// SPDX-License-Identifier: Apache-2.0
// More than a day of the pool's past, from a Prometheus that has scraped its servers.
#pragma once

#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "util/clock.h"
#include "util/result.h"
#include "web/data/history.h"

namespace rgpu::web {

class Past {
public:
    static constexpr int kMostDays = 90;

    // `prometheus`: "http://host:port" or with a path behind it; empty: there is none.
    explicit Past(std::string prometheus);
    ~Past();
    Past(const Past &) = delete;
    Past &operator=(const Past &) = delete;

    bool is_there() const { return !address_.empty(); }
    // Whether the address is one. Before start().
    Result<void> check() const;
    void start();
    void stop();

    // The last days of the server of that `[rgpud] name`; of all where that is empty. Nothing:
    // Prometheus is asked for them now, ask again. Fails with what Prometheus says. Never waits;
    // any thread.
    std::optional<Result<std::vector<Point>>> find(const std::string &server, int days);

private:
    using Key = std::pair<std::string, int>;
    struct Answer {
        std::optional<Result<std::vector<Point>>> points;
        Time asked;
    };
    void run();
    Result<std::vector<Point>> ask(const Key &key) const;

    const std::string address_;
    std::string host_, path_;  // its parts; without a slash at the end
    std::mutex mutex_;
    std::condition_variable wake_;
    std::map<Key, Answer> answers_;
    bool ending_ = false;
    std::thread thread_;
};

}  // namespace rgpu::web
