// SPDX-License-Identifier: Apache-2.0
// Who holds what of one server's GPUs: offers with their locks, and leases with their terms.
//
// No I/O but the LeaseStore's, no clock but the `now` it is given, no threads: the caller locks.
// Every call first ends what has expired by `now`; expire() tells which leases those were, so
// that their workers can be ended.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "pool/ledger/lease_store.h"
#include "pool/ledger/placement.h"
#include "pool/messages/messages.h"
#include "util/clock.h"
#include "util/defaults.h"
#include "util/result.h"

namespace rgpu::pool {

// Who asks, as its credential says.
struct Caller {
    uint32_t uid = 0;
    bool admin = false;     // may lease for others, see and end every lease
    std::string from = {};  // the address that asks; for the audit alone
};

class Ledger {
public:
    struct Limits {
        Milliseconds offer_timeout = defaults::kOfferTimeout;
        Milliseconds max_term = defaults::kMaxTerm;
        size_t offers = defaults::kMaxOffers;
        size_t offers_of_user = defaults::kMaxOffersOfUser;
        size_t leases = defaults::kMaxLeases;
        std::string boot = {};  // the host's, for its leases
    };

    // The store must outlive the ledger. GPUs start free; load() takes what the store knows. A
    // lease's term starts again with load(): while rgpud was away nobody could renew it. What it
    // holds of a GPU that is not here any more stays in the lease, and is nowhere taken.
    Ledger(std::vector<GpuState> gpus, LeaseStore &store, Limits limits, Distances distances = {},
           DriverVersions driver = {});
    Result<void> load(Time now);

    // With answer now the GPUs are locked for Limits::offer_timeout. Fails with `exhausted` when
    // the caller, or all, hold too many offers.
    Result<Offer> offer(const Caller &caller, const Request &request, Time now);
    // Only by the caller who asked. Fails with `unsupported` when there is no such offer (any
    // more). Of a span, `gpus` of those offered; 0: all.
    Result<Lease> accept(const Caller &caller, const std::string &offer, Time now, int gpus = 0);
    Result<void> reject(const Caller &caller, const std::string &offer, Time now);

    // The lease starts its term again. These two fail with `unsupported` when there is no such
    // lease, or it is another's.
    Result<Lease> renew(const Caller &caller, const std::string &lease, Time now);
    // Whoever held it is gone: it ends after `grace` unless it is renewed. Leases without a term
    // stay.
    void shorten(const std::string &lease, Milliseconds grace, Time now);
    Result<Lease> release(const Caller &caller, const std::string &lease, Time now);
    // Of a job, on one node or on all; those of the caller, or everybody's for an administrator.
    // Returns the leases ended. Where it fails some may have: expire() returns those.
    Result<std::vector<Lease>> release_job(const Caller &caller, const LeaseFilter &filter,
                                           Time now);

    // The lease is to get another size. From here on it takes of each GPU what it has or is to
    // have, whichever is more, until end_resize(). Fails with `unsupported` as renew() does, with
    // `exhausted` where there is no room, naming who has it, and with `unavailable` where another
    // change of it is under way.
    struct Sizes {
        std::vector<Portion> before, after;
    };
    Result<Sizes> begin_resize(const Caller &caller, const std::string &lease, const Resize &resize,
                               Time now);
    // It has the other size from here on, also in the store; or (not `done`) the one that it had.
    // Fails with `unsupported` where it has ended or is not being changed; where the store fails
    // nothing has changed, and it is being changed still.
    Result<Lease> end_resize(const Caller &caller, const std::string &lease, bool done, Time now);
    // What end_resize() would set; null where the lease is not being changed.
    const Sizes *resizing(const Caller &caller, const std::string &lease, Time now);

    // What the caller may see; secrets only if the filter asks for them.
    std::vector<Lease> leases(const Caller &caller, const LeaseFilter &filter, Time now);
    // Null when there is no such lease now. Valid until the next call.
    const Lease *find(const std::string &lease, Time now);

    // Ends what has expired; returns the leases that ended since the last time, by any call's
    // doing.
    std::vector<Lease> expire(Time now);
    // Holds what a lease had that has just ended, until let_go(): its workers are still being
    // ended, and nobody else may have its GPUs before. Only right after the call that ended it.
    void keep(const Lease &ended);
    void let_go(const std::string &lease);

    // Offers nothing of the GPU (UUID; empty: of all) until resume(); leases stay. resume() fails
    // with `unsupported` where nothing was drained, drain() where there is no such GPU.
    Result<void> drain(const Drain &drain);
    Result<void> resume(const std::string &gpu);
    // A reason why nothing is offered now, in memory only; empty: none. The GPUs count as drained
    // meanwhile.
    void close(std::string reason);
    // From here on only these GPUs (UUIDs) are offered, the others count as drained; in memory
    // only. Leases stay.
    void offer_only(std::set<std::string> gpus);
    // Ends the leases that have a part of this GPU; returns them.
    Result<std::vector<Lease>> release_of(const std::string &gpu, Time now);

    // When expire() has something to do; kNever: nothing.
    Time next_expiry() const;

    const std::vector<GpuState> &gpus() const { return gpus_; }
    size_t offer_count() const { return offers_.size(); }
    size_t lease_count() const { return leases_.size(); }

private:
    struct Locked {
        Caller caller;
        Request request;
        std::vector<Portion> gpus;
        Time expires;
    };
    struct Held {
        Lease lease;
        Time expires = kNever;
        std::optional<Sizes> resizing = {};  // the lease has the larger of both meanwhile
    };
    using Leases = std::map<std::string, Held>;

    Result<void> take(const std::vector<Portion> &portions, bool back = false);
    std::vector<Portion> portions_of(const std::vector<size_t> &chosen,
                                     const Request &request) const;
    Result<void> keep_of(Locked &offer, int gpus);
    Result<void> has_room(const Caller &caller, const Lease &lease, const Portion &has,
                          const Portion &wants);
    std::string others_on(const Caller &caller, const Lease &lease, const std::string &gpu) const;
    void end_expired(Time now);
    Result<Lease> end(Leases::iterator held);
    template <class Which> Result<std::vector<Lease>> end_those(Which &&which, Time now);
    GpuState *gpu(const std::string &uuid);
    void mark_drained();
    Leases::iterator find_for(const Caller &caller, const std::string &lease);
    Time expiry(Milliseconds term, Time now) const;

    std::vector<GpuState> gpus_;
    LeaseStore &store_;
    Limits limits_;
    Distances distances_;
    DriverVersions driver_;
    std::map<std::string, Locked> offers_;
    Leases leases_;
    std::vector<Lease> expired_;
    std::map<std::string, Drain> drains_;
    std::string closed_;
    std::optional<std::set<std::string>> only_;  // if set: what is offered
    std::map<std::string, std::vector<Portion>> kept_;
};

}  // namespace rgpu::pool
