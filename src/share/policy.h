// SPDX-License-Identifier: Apache-2.0
// Who gets a GPU next, and for how long: the token scheduler's arithmetic (doc/sharing.md).
//
// Pure: no clock but the `now` it is given (nanoseconds that never jump), no memory of its own, one
// thread. Its callers see to it that every number from outside is in its range (board.cc).
#pragma once

#include <cstdint>

#include "share/window.h"

namespace rgpu::share {

inline constexpr int kMaxTenants = 128;
inline constexpr int kNobody = -1;
inline constexpr int kKeyBytes = 40;

// --- the scheduler's constants; each with its reason in doc/sharing.md
inline constexpr int64_t kHorizon = 10 * kSecond;  // what is owed longer than this is forgotten
inline constexpr int64_t kMinQuota = 2 * kMillisecond;
inline constexpr int64_t kMaxQuota = 300 * kMillisecond;
inline constexpr int64_t kRound = 200 *
                                  kMillisecond;  // all who wait have had a turn after about this
inline constexpr int64_t kLinger = kMillisecond /
                                   2;  // a holder without work may keep the token this long
inline constexpr int64_t kNoLinger = kMillisecond /
                                     20;  // ... and so long when its breaks are known to be longer
inline constexpr int64_t kFirstLaunch =
    kMillisecond;  // after it got it, it has this long to launch
inline constexpr int64_t kRecent = 100 * kMillisecond;  // who wanted it so lately still earns
inline constexpr int64_t kCredit = 50 * kMillisecond;   // ... up to this, while it does not want it

// What a tenant may have of the GPU's time, in hundredths of it; weight 100 is the ordinary one.
struct Terms {
    int32_t least = 100, most = 100, weight = 100;
};

struct Tenant {
    char key[kKeyBytes];  // the lease; empty: this place is free
    Terms terms;
    int32_t workers;      // processes that stand for it
    int32_t waiting;      // of them, those that wait for the token
    int64_t last_wanted;  // when it last waited for it, or held it with work
    int64_t lag;          // what it is owed (> 0), or owes (< 0), of GPU time
    int64_t allowance;    // what its ceiling lets it take now
    int64_t burst;        // estimate of how long it works without a break
    int64_t gap;          // estimate of its breaks, as far as they are short
    int64_t idle_from;    // when its work ended last
    int64_t left_at;      // when its last worker went
    // What is shown.
    int64_t given;      // in all
    int64_t collected;  // of it, what is in the lease's books already
    int64_t turns, overrun, longest;
    Window<uint32_t, 602, 100 * kMillisecond> given_in;  // nanoseconds
    Window<uint32_t, 62, kSecond> launches_in;
    Window<uint64_t, 62, kSecond> bytes_in;
    int64_t launches, bytes;
};

struct State {
    Tenant tenants[kMaxTenants];
    int32_t tenant_end;  // no tenant lies at or behind this
    int32_t holder;      // kNobody
    int32_t busy;        // the holder has work on the GPU
    int64_t granted_at, deadline;
    int64_t idle_from;   // while it has none: since when
    int64_t settled_at;  // accounts are right up to here
};

void reset(State &, int64_t now);

// The tenant of this key, one more worker of it: the old one if it is known, with what it owes.
// kNobody: no place is left.
int join(State &, const char *key, Terms, int64_t now);
// One worker less. A tenant without workers is kept until nothing is owed any more, then its place
// is free.
void leave(State &, int tenant, int64_t now);
int tenants_with_workers(const State &);
// From now on the tenant of this key, if there is one, may have that. The accounts are settled.
void set_terms(State &, const char *key, Terms);

// A worker of the tenant begins to wait for the token, or ends to.
void want(State &, int tenant, int64_t now);
void unwant(State &, int tenant);

// Brings the accounts up to `now`: the holder's work is charged, and what each is due is added.
void settle(State &, int64_t now);
// The holder's work begins, or has ended. Settles.
void set_busy(State &, bool busy, int64_t now);

// How long the holder, which has no work, may still keep the token from others.
int64_t may_keep_until(const State &);

// Who of those that wait should have the token now; kNobody when none may. `again` (may be null) is
// moved to the time at which asking again makes sense, if that is sooner: when a ceiling lets
// somebody go on. Not `but` if there is another. Settles.
int choose(State &, int64_t now, int64_t *again, int but = kNobody);
// The tenant has the token from now on. There was no holder.
void grant(State &, int tenant, int64_t now);
// The holder's turn is over: it had no more work, or (cut) it was made to stop. Settles.
void end_turn(State &, bool cut, int64_t now);

// The holder should stop launching now: its quota is used up and somebody else is due, somebody
// with a short burst is due before it, or its ceiling is reached. `again` as above, for when this
// may change. Settles.
bool should_stop(State &, int64_t now, int64_t *again);

// The tenant's own ceiling keeps it from launching now, whoever else wants the GPU.
bool at_ceiling(const State &, int tenant);

// The part of the GPU (0 to 1) that the tenant is due among those who want it now.
double due(const State &, int tenant, int64_t now);
// GPU time given in the last `span` nanoseconds, as a part of it.
double given_in(const State &, int tenant, int64_t now, int64_t span);

}  // namespace rgpu::share
