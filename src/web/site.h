// SPDX-License-Identifier: Apache-2.0
// `rgpu web`: the page, what it shows, and who is told what.
//
// It only reads: nothing that a browser sends changes anything in the pool. What a viewer is told
// is made here, in the server; the page never gets what it must not show.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "pool/client/client.h"
#include "util/config.h"
#include "util/result.h"
#include "web/access.h"
#include "web/data/history.h"
#include "web/data/lives.h"
#include "web/data/past.h"
#include "web/data/watcher.h"
#include "web/http/server.h"
#include "web/pages.h"

namespace rgpu::web {

class Site {
public:
    // How long between two looks at the pool, while somebody looks at the page and else.
    struct Pace {
        Milliseconds watched{2000}, unwatched{10000};
    };
    // `tool` runs Slurm's commands.
    Site(const Config &config, Access access, pool::Client client, Tool tool, Pace pace);
    ~Site();

    // Serves the page; returns the port. Fails also with `invalid` where what rgpu.conf says of the
    // history is no good.
    Result<int> start(const std::string &address);
    void stop();
    bool has_charts() const { return pages_.has_charts(); }

private:
    // The listeners of one stream, who see the same.
    struct Audience {
        Viewer viewer;
        std::vector<std::string> told;  // of each server, last
        std::string queue;              // the same of Slurm's queue
    };

    Answer answer(const Asked &asked);
    Answer answer_to(const Viewer &viewer, const Asked &asked);
    std::shared_ptr<const std::string> first(const std::string &stream);
    void listened(const std::string &stream, bool somebody);
    void heard(const Seen &seen);
    void tell(const std::string &stream, Audience &audience);
    Answer job(const Viewer &viewer, const Asked &asked) const;
    Answer history(const Asked &asked);
    std::string pool_json(const Viewer &viewer, const std::vector<std::string> &servers) const;
    std::vector<std::string> servers_for(const Viewer &viewer) const;

    const Access access_;
    const Pages pages_;
    std::mutex mutex_;
    Seen seen_;
    Lives lives_;
    History history_;
    Past past_;
    std::map<std::string, Viewer> viewers_;  // by stream, as they came
    std::map<std::string, Audience> audiences_;
    int listeners_ = 0;  // streams that have some
    Watcher watcher_;
    Server server_;  // the last: it ends first
};

}  // namespace rgpu::web
