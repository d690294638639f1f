// SPDX-License-Identifier: Apache-2.0
#include "share/policy.h"

#include <algorithm>
#include <cstring>

namespace rgpu::share {
namespace {

constexpr double kSmooth = 0.25;  // weight of the newest burst in the estimate
// How far the allowance under a ceiling may grow, and how much of it starts a turn: per unit of the
// ceiling.
constexpr int64_t kAllowanceDepth = 120 * kMillisecond, kAllowanceStart = 40 * kMillisecond;
// What is owed by one who is away is forgiven at its share, at least at this.
constexpr double kForgive = 0.05;

double fraction(int32_t hundredths) { return hundredths / 100.0; }

bool is_tenant(const State &s, int i) { return i >= 0 && i < s.tenant_end && s.tenants[i].key[0]; }

bool wants(const State &s, int i) { return s.tenants[i].waiting > 0 || (s.holder == i && s.busy); }

// Whether it earns what it is due: it wants the GPU, or did a moment ago and has not earned much
// since.
bool earns(const State &s, int i, int64_t now)
{
    const Tenant &t = s.tenants[i];
    if (!t.key[0] || !t.workers) return false;
    return wants(s, i) || (now - t.last_wanted < kRecent && t.lag < kCredit);
}

struct Parts {
    double of[kMaxTenants];
};

// Water is poured into the vessels that are not full, by their weights.
template <class Weight>
double pour(const State &s, Parts &parts, double water, const bool *in, Weight weight)
{
    for (int rounds = 0; water > 1e-9 && rounds < kMaxTenants; ++rounds) {
        double sum = 0;
        for (int i = 0; i < s.tenant_end; ++i)
            if (in[i] && parts.of[i] < fraction(s.tenants[i].terms.most) - 1e-9)
                sum += weight(s.tenants[i].terms);
        if (sum <= 0) break;
        double left = 0;
        for (int i = 0; i < s.tenant_end; ++i) {
            double most = fraction(s.tenants[i].terms.most);
            if (!in[i] || parts.of[i] >= most - 1e-9) continue;
            parts.of[i] += water * weight(s.tenants[i].terms) / sum;
            if (parts.of[i] > most) {
                left += parts.of[i] - most;
                parts.of[i] = most;
            }
        }
        water = left;
    }
    return water;
}

// What each is due: first its least, then what is over by least and weight up to its most; what
// nobody of these may have goes to those without a least.
Parts parts_of(const State &s, const bool *in)
{
    Parts parts{};
    double sum = 0;
    bool without[kMaxTenants];
    for (int i = 0; i < s.tenant_end; ++i) {
        without[i] = in[i] && s.tenants[i].terms.least == 0;
        if (in[i]) sum += fraction(s.tenants[i].terms.least);
    }
    double scale = sum > 1 ? 1 / sum : 1;
    for (int i = 0; i < s.tenant_end; ++i)
        if (in[i]) parts.of[i] = scale * fraction(s.tenants[i].terms.least);
    double over = std::max(0.0, 1 - sum);
    over = pour(s, parts, over, in, [](const Terms &t) { return fraction(t.least) * t.weight; });
    pour(s, parts, over, without, [](const Terms &t) { return static_cast<double>(t.weight); });
    return parts;
}

Parts parts_now(const State &s, int64_t now)
{
    bool in[kMaxTenants];
    for (int i = 0; i < s.tenant_end; ++i) in[i] = earns(s, i, now);
    return parts_of(s, in);
}

void move_lag(Tenant &t, double by)
{
    t.lag = std::clamp<int64_t>(t.lag + static_cast<int64_t>(by), -kHorizon, kHorizon);
}

// The holder had the GPU: it owes that, and each of those who want it is owed its part.
void owe(State &s, int64_t from, int64_t now)
{
    auto used = static_cast<double>(now - from);
    bool in[kMaxTenants];
    for (int i = 0; i < s.tenant_end; ++i) in[i] = earns(s, i, now) || i == s.holder;
    Parts parts = parts_of(s, in);
    for (int i = 0; i < s.tenant_end; ++i)
        if (in[i]) move_lag(s.tenants[i], parts.of[i] * used);
    move_lag(s.tenants[s.holder], -used);
}

void charge(State &s, int64_t from, int64_t now)
{
    owe(s, from, now);
    Tenant &t = s.tenants[s.holder];
    t.allowance -= now - from;
    t.given += now - from;
    t.given_in.spread<1>(from, now);
    t.last_wanted = now;
}

// Those who do not want the GPU: their debts are forgiven with time, and so is what they are owed.
// Returns how much of that.
int64_t fade(Tenant &t, int64_t dt)
{
    auto time = static_cast<double>(dt);
    if (t.lag < 0)
        t.lag = std::min<int64_t>(
            0, t.lag + static_cast<int64_t>(time * std::max(kForgive, fraction(t.terms.least))));
    if (t.lag <= kCredit) return 0;
    auto lost = static_cast<int64_t>(static_cast<double>(t.lag - kCredit) *
                                     std::min(1.0, time / static_cast<double>(kSecond)));
    t.lag -= lost;
    return lost;
}

// What one is not owed any more nobody owes: all debts shrink alike.
void forgive(State &s, int64_t lost)
{
    double debts = 0;
    for (int i = 0; i < s.tenant_end; ++i)
        debts -= static_cast<double>(std::min<int64_t>(0, s.tenants[i].lag));
    if (lost <= 0 || debts <= 0) return;
    const double part = std::min(1.0, static_cast<double>(lost) / debts);
    for (int i = 0; i < s.tenant_end; ++i)
        if (Tenant &t = s.tenants[i]; t.lag < 0)
            t.lag -= static_cast<int64_t>(part * static_cast<double>(t.lag));
}

bool ceiled(const Tenant &t) { return t.terms.most < 100; }

int64_t start_allowance(const Tenant &t) { return kAllowanceStart * t.terms.most / 100; }

// When a tenant under a ceiling may start again.
int64_t may_start_at(const Tenant &t, int64_t now)
{
    int64_t missing = ceiled(t) ? start_allowance(t) - t.allowance : 0;
    return missing <= 0 ? now : now + missing * 100 / std::max(1, t.terms.most);
}

void sooner(int64_t *again, int64_t time)
{
    if (again && time < *again) *again = time;
}

int64_t next_quota(const State &s, int i, int64_t now)
{
    bool in[kMaxTenants];
    for (int j = 0; j < s.tenant_end; ++j)
        in[j] = s.tenants[j].key[0] && (s.tenants[j].waiting > 0 || j == i || earns(s, j, now));
    double part = parts_of(s, in).of[i];
    auto turn = static_cast<int64_t>(part * static_cast<double>(kRound));
    return std::clamp(std::min(2 * s.tenants[i].burst, turn), kMinQuota, kMaxQuota);
}

// A break in its work is over.
void note_gap(Tenant &t, int64_t now)
{
    if (!t.idle_from) return;
    auto sample = static_cast<double>(std::min(now - t.idle_from, 4 * kLinger));
    t.gap = static_cast<int64_t>((1 - kSmooth) * static_cast<double>(t.gap) + kSmooth * sample);
    t.idle_from = 0;
}

void clear(Tenant &t) { memset(static_cast<void *>(&t), 0, sizeof t); }

}  // namespace

void reset(State &s, int64_t now)
{
    for (Tenant &t : s.tenants) clear(t);
    s.tenant_end = 0;
    s.holder = kNobody;
    s.busy = 0;
    s.granted_at = s.deadline = s.idle_from = s.settled_at = now;
}

int join(State &s, const char *key, Terms terms, int64_t now)
{
    settle(s, now);
    int place = kNobody;
    for (int i = 0; i < s.tenant_end; ++i) {
        if (!strncmp(s.tenants[i].key, key, kKeyBytes - 1)) {
            s.tenants[i].workers++;
            s.tenants[i].terms = terms;
            return i;
        }
        if (place == kNobody && !s.tenants[i].key[0]) place = i;
    }
    if (place == kNobody && s.tenant_end < kMaxTenants) place = s.tenant_end++;
    if (place == kNobody) return kNobody;
    Tenant &t = s.tenants[place];
    clear(t);
    strncpy(t.key, key, kKeyBytes - 1);
    t.terms = terms;
    t.workers = 1;
    t.burst = kMinQuota;
    t.allowance = start_allowance(t);
    t.last_wanted = now - kRecent;
    return place;
}

void leave(State &s, int i, int64_t now)
{
    if (!is_tenant(s, i)) return;
    settle(s, now);
    s.tenants[i].workers = std::max(0, s.tenants[i].workers - 1);
    if (!s.tenants[i].workers) {
        s.tenants[i].waiting = 0;
        s.tenants[i].left_at = now;
    }
}

int tenants_with_workers(const State &s)
{
    int n = 0;
    for (int i = 0; i < s.tenant_end; ++i) n += s.tenants[i].key[0] && s.tenants[i].workers;
    return n;
}

void set_terms(State &s, const char *key, Terms terms)
{
    for (int i = 0; i < s.tenant_end; ++i)
        if (Tenant &t = s.tenants[i]; t.key[0] && !strncmp(t.key, key, kKeyBytes - 1)) {
            // Without a ceiling nothing was counted.
            if (!ceiled(t)) t.allowance = kAllowanceStart * terms.most / 100;
            t.terms = terms;
        }
}

void want(State &s, int i, int64_t now)
{
    settle(s, now);
    if (!s.tenants[i].waiting && s.holder != i) note_gap(s.tenants[i], now);
    s.tenants[i].waiting++;
    s.tenants[i].last_wanted = now;
}

void unwant(State &s, int i) { s.tenants[i].waiting = std::max(0, s.tenants[i].waiting - 1); }

void settle(State &s, int64_t now)
{
    int64_t dt = now - s.settled_at;
    if (dt <= 0) return;
    int64_t lost = 0;
    for (int i = 0; i < s.tenant_end; ++i) {
        Tenant &t = s.tenants[i];
        if (!t.key[0]) continue;
        // A tenant that left with nothing owed is forgotten, once it is in the books and nobody
        // looks at its last seconds any more.
        if (!t.workers && s.holder != i && t.lag >= 0 && now - t.left_at > kHorizon &&
            t.given <= t.collected) {
            clear(t);
            continue;
        }
        if (t.waiting) t.last_wanted = now;
        if (!earns(s, i, now) && s.holder != i) lost += fade(t, dt);
        if (ceiled(t))
            t.allowance = std::clamp(t.allowance + dt * t.terms.most / 100, -kHorizon,
                                     kAllowanceDepth * t.terms.most / 100);
    }
    forgive(s, lost);
    if (s.holder != kNobody && s.busy) charge(s, s.settled_at, now);
    while (s.tenant_end > 0 && !s.tenants[s.tenant_end - 1].key[0]) --s.tenant_end;
    s.settled_at = now;
}

void set_busy(State &s, bool busy, int64_t now)
{
    settle(s, now);
    if (s.holder == kNobody || busy == (s.busy != 0)) return;
    Tenant &t = s.tenants[s.holder];
    s.busy = busy;
    if (busy)
        note_gap(t, now);
    else
        s.idle_from = t.idle_from = now;
}

int64_t may_keep_until(const State &s)
{
    if (s.holder == kNobody) return 0;
    const Tenant &t = s.tenants[s.holder];
    if (s.idle_from <= s.granted_at) return s.granted_at + kFirstLaunch;
    return s.idle_from + (t.gap > kLinger ? kNoLinger : std::clamp(3 * t.gap, kNoLinger, kLinger));
}

int choose(State &s, int64_t now, int64_t *again, int but)
{
    settle(s, now);
    int best = kNobody;
    for (int i = 0; i < s.tenant_end; ++i) {
        const Tenant &t = s.tenants[i];
        if (!t.key[0] || !t.waiting) continue;
        if (int64_t start = may_start_at(t, now); start > now) {
            sooner(again, start);
            continue;
        }
        if (best == kNobody || best == but) {
            best = i;
            continue;
        }
        if (i == but) continue;
        const Tenant &b = s.tenants[best];
        bool gap_only = !t.terms.least, best_gap_only = !b.terms.least;
        if (gap_only != best_gap_only ? best_gap_only : t.lag > b.lag) best = i;
    }
    return best;
}

void grant(State &s, int i, int64_t now)
{
    s.holder = i;
    s.granted_at = s.settled_at = s.idle_from = now;
    s.busy = 0;
    s.deadline = now + next_quota(s, i, now);
    s.tenants[i].turns++;
}

void end_turn(State &s, bool cut, int64_t now)
{
    settle(s, now);
    if (s.holder == kNobody) return;
    Tenant &t = s.tenants[s.holder];
    // A burst that was cut would have been longer: how much, nobody knows.
    int64_t seen = now - s.granted_at;
    double sample = static_cast<double>(
        std::clamp(cut ? 2 * std::max(seen, t.burst) : seen, kMinQuota, kMaxQuota));
    t.burst = static_cast<int64_t>((1 - kSmooth) * static_cast<double>(t.burst) + kSmooth * sample);
    t.overrun += std::max<int64_t>(0, now - s.deadline);
    // A turn that was asked for and not used kept others from theirs.
    if (!s.busy && s.idle_from <= s.granted_at)
        owe(s, std::max(s.granted_at, now - 2 * kFirstLaunch), now);
    s.holder = kNobody;
    s.busy = 0;
}

bool should_stop(State &s, int64_t now, int64_t *again)
{
    settle(s, now);
    if (s.holder == kNobody) return false;
    const Tenant &h = s.tenants[s.holder];
    if (ceiled(h)) {
        if (h.allowance <= 0) return true;
        sooner(again, now + h.allowance * 100 / (100 - h.terms.most));
    }
    int64_t earliest = s.granted_at + kMinQuota, lead = kMaxQuota;
    bool stop = false;
    for (int i = 0; i < s.tenant_end; ++i) {
        const Tenant &t = s.tenants[i];
        if (!t.key[0] || !t.waiting || i == s.holder) continue;
        if (int64_t start = may_start_at(t, now); start > now) {
            sooner(again, start);
            continue;
        }
        bool before = !t.terms.least != !h.terms.least ? !h.terms.least : t.lag > h.lag;
        // Who only fills gaps goes when the gap ends; a short burst that is due need not wait for a
        // long quota.
        bool at_once = h.terms.least == 0 && t.terms.least != 0;
        bool is_short = now + 2 * t.burst < s.deadline;
        int64_t due_at = at_once ? now : is_short ? std::min(earliest, s.deadline) : s.deadline;
        if (before && now >= due_at) stop = true;
        sooner(again, before ? std::max(due_at, now) : std::max(s.deadline, now + kMinQuota));
        lead = std::min(lead, h.lag - t.lag);
    }
    // Still the one furthest below its share: it goes on until another is.
    if (!stop && now >= s.deadline)
        s.deadline = now + std::clamp(lead, kMinQuota, next_quota(s, s.holder, now));
    return stop;
}

bool at_ceiling(const State &s, int i)
{
    return is_tenant(s, i) && may_start_at(s.tenants[i], 0) > 0;
}

double due(const State &s, int i, int64_t now)
{
    return is_tenant(s, i) ? parts_now(s, now).of[i] : 0;
}

double given_in(const State &s, int i, int64_t now, int64_t span)
{
    if (!is_tenant(s, i)) return 0;
    double given = s.tenants[i].given_in.sum(now, span);
    // What is not settled yet.
    if (s.holder == i && s.busy && now > s.settled_at)
        given += static_cast<double>(std::min(now - s.settled_at, span));
    return given / static_cast<double>(span);
}

}  // namespace rgpu::share
