// SPDX-License-Identifier: Apache-2.0
// The control API's client: asks the servers of rgpu.conf, all at once, and takes what fits best.
//
// Every call asks its servers in parallel and returns when the last has answered or
// [client] server_timeout has passed. One thread at a time may use a Client. Needs rgpu.conf's
// [[server]], [auth] and [client]; keeps no descriptor but connections, and no thread between
// calls.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "pool/messages/messages.h"
#include "util/config.h"
#include "util/result.h"

namespace rgpu::pool {

struct Leases;  // lease_json.h

// What one server said, or why it did not.
template <class T> struct Told {
    std::string server;
    Result<T> answer;
};

using Inventories = std::vector<Told<Inventory>>;
// How many servers did not answer.
size_t unanswered(const Inventories &inventories);

// How one round of asking ended.
struct Outcome {
    enum Kind {
        granted,      // `grants` has all that was wanted
        later,        // a server could, but not now, or did not answer while the others said never
        never,        // no server ever could
        unreachable,  // no server answered
    } kind = unreachable;
    std::string reason;         // why not, server by server, in words
    std::vector<Grant> grants;  // one, or with span() one of each server, in the order of rgpu.conf
};

class Client {
public:
    // Fails with `invalid` when the configuration has no server, or the credentials cannot be made
    // (no key file, munged not running: told at the first use).
    static Result<Client> create(const Config &config);
    Client(Client &&) noexcept;
    Client &operator=(Client &&) noexcept;
    ~Client();

    // One round: offers from all, the best accepted, the rest rejected. Fails only where asking
    // again cannot help (credentials, a request that servers find invalid). All or nothing: where
    // one of several offers cannot be accepted, the leases of the others are given back.
    Result<Outcome> acquire(const Request &request);

    // The parts of acquire(), one by one.
    std::vector<Told<Offer>> offers(const Request &request);
    Result<Grant> accept(const std::string &server, const std::string &offer);
    void reject(const std::vector<Told<Offer>> &offers, const std::vector<std::string> &but = {});

    // From here on acquire() tells no secrets: for who takes GPUs that another process fetches
    // (grants()).
    void without_secrets();

    // Each server's leases that the filter fits and the caller may see.
    std::vector<Told<std::vector<Lease>>> leases(const LeaseFilter &filter);

    // The same as grants with secrets: what a node's prolog writes to lease.json. Of several
    // servers those of the job's last run: one that was away when the job started again may still
    // hold what it had before. Fails when none was found, or of a span not all (span.h), and a
    // server did not answer. `config` is what node_configs() then tells of this node.
    Result<std::vector<Grant>> grants(const std::string &job, const std::string &node,
                                      const std::string &config = {});
    std::vector<Told<NodeConfigs>> node_configs();

    // Ends a lease and its workers. A lease that is not there any more is success.
    Result<void> release(const std::string &server, const std::string &lease);
    // The same with several, at once; the first failure, after all were tried.
    Result<void> release(const std::vector<Grant> &grants);

    // Ends every lease of a job (of its node, if given); returns how many. Fails, after having
    // tried all, when a server did not answer or refused.
    Result<int> release_job(const std::string &job, const std::string &node = {});
    // The same, server by server.
    std::vector<Told<Released>> release_each(const std::string &job, const std::string &node = {});

    // The same, for a job that has ended. With `idle` a server ends none while programs are
    // connected to it, and tells how many are. With `usage` its workers are waited for, and what
    // the leases used is told, once; without, servers answer before that.
    std::vector<Told<Released>> end_job(const std::string &job, bool idle, bool usage);

    // Starts the lease's term again.
    Result<void> renew(const std::string &server, const std::string &lease);

    // Another size for a lease whose programs run; with Resize::hold it is to be kept or undone
    // soon (resize.h). What it has then.
    Result<Lease> resize(const std::string &server, const std::string &lease, const Resize &resize);
    Result<Lease> end_resize(const std::string &server, const std::string &lease, bool keep);

    // Takes a server or one of its GPUs (UUID or number) out of the pool, and back into it.
    Result<void> drain(const std::string &server, const Drain &drain);
    Result<void> resume(const std::string &server, const std::string &gpu);

    // From here on only these servers are asked, by name or address; empty: all. Fails with
    // `invalid` where rgpu.conf has none of them.
    Result<void> only(const std::vector<std::string> &servers);

    // From here on these servers are not asked; where no other would be left, they are all the
    // same.
    void without(const std::vector<std::string> &servers);

    // From here on acquire() takes GPUs of several servers where no one server has all: of the
    // fewest that do (span.h).
    void span();

    // Whether GPUs of several servers could ever serve the request, as far as those that answer
    // tell.
    bool span_would_do(const Request &request);

    // From here on acquire() takes an offer of a server on this Slurm node ([[server]] node) before
    // any other; empty: of none.
    void prefer(const std::string &node);

    // Lends GPUs of a server's host to the pool: administrators only. The grant's lease is the
    // lend: Holder keeps it, withdraw() ends it. The leases that the pool makes of its GPUs end
    // after Lend::grace.
    Result<Grant> lend(const std::string &server, const Lend &lend);
    Result<void> withdraw(const std::string &server, const std::string &lend);

    std::vector<Told<Inventory>> inventory();

    Result<Inventory> inventory_of(const std::string &server);

    // What each server's health checks found, and how its GPUs lie.
    std::vector<Told<Health>> health();
    std::vector<Told<Topology>> topology();
    // Needs no credential that the server takes, so that it answers where clocks are far apart.
    Result<Alive> alive(const std::string &server);
    // Fetches so many bytes (1 to defaults::kMaxProbe) that mean nothing; returns how many came.
    Result<size_t> probe(const std::string &server, size_t bytes);

    // What leases use that are held, of a job or (empty) of all; of a job also what those used that
    // ended within a month. Of a server of before it is `invalid`: there is no such thing.
    std::vector<Told<Usages>> usages(const std::string &job);

    // How the tenants of each server's GPUs stand.
    std::vector<Told<Sharing>> sharing();

private:
    Result<Grant> granted(const std::string &server, const std::string &target,
                          const std::string &body = {});
    Result<Grant> grant_of(const std::string &server, Result<Leases> told);
    Result<Outcome> acquire_span(const Request &request, std::vector<Told<Offer>> told);
    struct State;
    explicit Client(std::unique_ptr<State> state);
    std::unique_ptr<State> state_;
};

}  // namespace rgpu::pool
