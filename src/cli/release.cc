// SPDX-License-Identifier: Apache-2.0
// rgpu release: ends leases before their owners do.
#include <CLI/CLI.hpp>

#include <unistd.h>

#include <optional>

#include "cli/parts/command.h"
#include "cli/parts/lease_file.h"
#include "cli/parts/pool_view.h"

namespace rgpu::cli {
namespace {

class Release : public Command {
public:
    void options(CLI::App &app) override
    {
        auto *id = app.add_option("LEASE", id_,
                                  "The lease's id, or its first digits as rgpu leases shows them");
        auto *job =
            app.add_option("--job", job_, "Every lease of this Slurm job")->type_name("JOB");
        auto *node = app.add_option("--node", node_, "With --job: only those of this node")
                         ->type_name("NODE");
        auto *file = app.add_option("--file", file_, "What rgpu request wrote; the file goes, too")
                         ->type_name("FILE");
        file->excludes(id)->excludes(job);
        job->excludes(id);
        node->needs(job);
        app.add_flag("--json", json_, "Print how many leases were ended as JSON");
    }

    int run(Context &context) override
    {
        if (id_.empty() && job_.empty() && file_.empty()) {
            fprintf(stderr, "rgpu: release what? Give a lease's id, --job or --file; see rgpu "
                            "release --help\n");
            return kUsage;
        }
        Result<pool::Client> client = context.pool();
        if (!client) return fail(client.error());
        Result<int> released = !file_.empty() ? release_file(*client)
                               : job_.empty() ? release_one(*client)
                                              : client->release_job(job_, node_);
        if (!released)
            return fail(released.error(),
                        released.error().kind == ErrorKind::disconnected ? kNoServer : kFailed);
        if (json_) printf("{\"released\": %d}\n", *released);
        if (*released == 0 && !job_.empty())
            return fail(error(ErrorKind::invalid,
                              "job %s%s%s has no lease that you may end; see rgpu leases",
                              job_.c_str(), node_.empty() ? "" : " on node ", node_.c_str()));
        if (!json_) printf("%d released\n", *released);
        return kOk;
    }

private:
    Result<int> release_file(pool::Client &client)
    {
        auto grants = read_lease_file(file_);
        if (!grants) return std::move(grants).error();
        std::optional<Error> failure;
        for (const pool::Grant &grant : *grants)
            if (Result<void> released = client.release(grant.server, grant.lease.id);
                !released && !failure)
                failure = std::move(released).error();
        // It is tried again then, and what has ended already is no error.
        if (failure) return std::move(*failure).in("the file stays");
        unlink(file_.c_str());
        return static_cast<int>(grants->size());
    }

    Result<int> release_one(pool::Client &client)
    {
        std::vector<std::pair<std::string, std::string>> found;  // server, id
        pool::Inventories inventories = client.inventory();
        const Error *failure = nullptr;
        for (const auto &told : inventories) {
            if (!told.answer) {
                failure = failure ? failure : &told.answer.error();
                continue;
            }
            for (const pool::Lease &lease : told.answer->leases)
                if (lease.id.starts_with(id_)) found.emplace_back(told.server, lease.id);
        }
        if (found.empty() && failure) return *failure;
        if (found.empty())
            return error(ErrorKind::invalid,
                         "there is no lease %s that you may end; see rgpu leases", id_.c_str());
        if (found.size() > 1)
            return error(ErrorKind::invalid, "%zu leases begin with %s: give more digits",
                         found.size(), id_.c_str());
        Result<void> released = client.release(found[0].first, found[0].second);
        if (!released) return std::move(released).error();
        return 1;
    }

    std::string id_, job_, node_, file_;
    bool json_ = false;
};

const Registered<Release> release{"", "release",
                                  "End a lease, or those of a Slurm job, and their workers"};

}  // namespace
}  // namespace rgpu::cli
