// SPDX-License-Identifier: Apache-2.0
#include "share/board.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

namespace rgpu::share {
namespace {

// While somebody waits, and while somebody works; what happens in between rings the bell.
constexpr int64_t kLookWaiting = 2 * kMillisecond, kLookWorking = kSecond / 4, kLookIdle = kSecond;
// A turn that should have ended, and whose work does not: after this the token goes on without it.
// The short one holds where all of it stands behind host functions, the long one whatever the
// worker says of its progress.
constexpr int64_t kStuck = 10 * kSecond, kStuckAtGate = 50 * kMillisecond,
                  kMostStuck = 20 * kSecond;
// What a worker may say of itself.
constexpr int64_t kLongest = 24 * 3600 * kSecond, kMostMemory = int64_t{1} << 50;
constexpr uint64_t kMostLaunches = 100'000'000,
                   kMostBytes = uint64_t{1} << 40;  // since the last look

// How far a counter has come since it was `seen`; one that goes back, or too far, says nothing.
uint64_t more(uint64_t &seen, uint64_t value, uint64_t most)
{
    const uint64_t by = value - seen;
    seen = value;
    return by <= most ? by : 0;
}

int64_t add(int64_t sum, uint64_t by)
{
    return sum > INT64_MAX - static_cast<int64_t>(by) ? INT64_MAX : sum + static_cast<int64_t>(by);
}

void copy_key(char (&to)[kKeyBytes], const char *from)
{
    memset(to, 0, sizeof to);
    strncpy(to, from, kKeyBytes - 1);
}

}  // namespace

// All of it is this process's. `busy` and what follows is how its page was read last.
struct Board::Seat {
    std::string lease;
    Terms terms;
    SchedulerEnd desk;
    int tenant = kNobody;  // until it sits down
    bool waiting = false, busy = false;
    uint32_t said = 0;  // the token's word
    uint32_t gates = 0;
    int64_t under_way = 0, memory = 0;
    uint64_t completed = 0, bytes = 0, work = 0, bursts = 0;

    // Counted before the worker looks at its token, and read here after the token was changed.
    bool has_work() const
    {
        return desk.told->launches.load(std::memory_order_seq_cst) !=
               desk.told->completed.load(std::memory_order_seq_cst);
    }
};

Board::Board(int64_t now) { reset(state_, now); }

Board::Board(Board &&) noexcept = default;
Board::~Board() = default;

namespace {

Terms clamped(Terms terms)
{
    Terms sound;
    sound.least = std::clamp(terms.least, 0, 100);
    sound.most = std::clamp(terms.most, std::max(1, sound.least), 100);
    sound.weight = std::clamp(terms.weight, 1, 1000000);
    return sound;
}

// What the tenant may have of the memory is read by whoever counts it, beside words that say what
// it has (serverd/memory_account.h): hence the order.
void tell_size(Says &says, const Terms &terms, uint64_t memory)
{
    says.memory.store(memory, std::memory_order_seq_cst);
    says.has_ceiling.store(terms.most < 100, std::memory_order_relaxed);
}

}  // namespace

Result<uint64_t> Board::open(const std::string &lease, Terms terms, SchedulerEnd desk,
                             uint64_t memory)
{
    if (seats_.size() >= kMaxWorkers)
        return error(ErrorKind::exhausted, "the GPU has %zu workers already", kMaxWorkers);
    auto seat = std::make_unique<Seat>();
    seat->lease = lease.substr(0, kKeyBytes - 1);
    seat->terms = clamped(terms);
    seat->desk = std::move(desk);
    tell_size(*seat->desk.says, seat->terms, memory);
    seats_.emplace(++last_, std::move(seat));
    return last_;
}

size_t Board::change(const std::string &lease, Terms terms, uint64_t memory, int64_t now)
{
    // What was used so far is charged by the terms of then.
    read(std::max(now, state_.settled_at));
    const std::string key = lease.substr(0, kKeyBytes - 1);
    terms = clamped(terms);
    set_terms(state_, key.c_str(), terms);
    size_t told = 0;
    for (auto &[number, seat] : seats_) {
        if (seat->lease != key) continue;
        seat->terms = terms;
        tell_size(*seat->desk.says, terms, memory);
        ++told;
    }
    return told;
}

bool Board::holds(const Seat &seat) const
{
    return seat.tenant != kNobody && seat.tenant == state_.holder;
}

void Board::sit(Seat &seat, int64_t now)
{
    seat.tenant = join(state_, seat.lease.c_str(), seat.terms, now);
    if (seat.tenant == kNobody) return;
    seat.work = work_at(seat.desk.told->work.load(), now);
    if (holds(seat)) say(seat, kMine | (closing_ ? kClosing : 0));
}

// What the worker tells, each word once.
void Board::read(Seat &seat, int64_t now)
{
    const Told &told = *seat.desk.told;
    if (seat.tenant == kNobody) {
        if (told.seated.load()) sit(seat, now);
        if (seat.tenant == kNobody) return;
    }
    const bool waiting = told.waiting.load() != 0;
    if (waiting != seat.waiting) {
        waiting ? want(state_, seat.tenant, now) : unwant(state_, seat.tenant);
        seat.waiting = waiting;
    }
    Tenant &t = state_.tenants[seat.tenant];
    if (const uint64_t launches = more(seat.completed, told.completed.load(), kMostLaunches)) {
        t.launches_in.add(now, static_cast<uint32_t>(launches));
        t.launches = add(t.launches, launches);
    }
    if (const uint64_t bytes = more(seat.bytes, told.bytes.load(), kMostBytes)) {
        t.bytes_in.add(now, bytes);
        t.bytes = add(t.bytes, bytes);
    }
    t.longest = std::max(t.longest, std::clamp<int64_t>(told.longest.load(), 0, kLongest));
    seat.memory = std::clamp<int64_t>(told.memory.load(), 0, kMostMemory);
    const int64_t since = told.under_way.load();
    seat.under_way = since ? std::clamp(since, now - kLongest, now) : 0;
    seat.gates = told.gates.load();
}

void Board::read(int64_t now)
{
    State &s = state_;
    const int64_t from = s.settled_at, span = std::max<int64_t>(0, now - from);
    const bool was = s.busy != 0;
    bool is = false;
    int64_t worked = 0;
    uint64_t bursts = 0;
    for (auto &[number, seat] : seats_) {
        if (seat->tenant == kNobody) continue;
        const bool before = seat->busy;
        seat->busy = seat->has_work();
        const uint64_t begun = more(seat->bursts, seat->desk.told->bursts.load(), kMostLaunches);
        const uint64_t total = work_at(seat->desk.told->work.load(), now), by = total - seat->work;
        seat->work = total;
        if (!holds(*seat)) continue;
        is = is || seat->busy;
        bursts += begun;
        // Without a break between then and now, it is all of the time, whatever it says.
        worked += before && seat->busy && !begun
                      ? span
                      : std::clamp(static_cast<int64_t>(by), int64_t{0}, span);
    }
    if (s.holder != kNobody && span) replay(was, is, std::min(worked, span), bursts, from, now);
    settle(s, now);
    for (auto &[number, seat] : seats_) read(*seat, now);
}

// The holder's work since the last look, for the policy: how much of it there was, in how many
// bursts, and whether there is some now.
void Board::replay(bool was, bool is, int64_t worked, uint64_t bursts, int64_t from, int64_t now)
{
    State &s = state_;
    const int64_t rest = now - from - worked;
    if (was && !is) {
        set_busy(s, false, from + worked);
    } else if (!was) {
        if (worked > 0 || is) set_busy(s, true, now - worked);
        set_busy(s, is, now);
    } else if (rest > 0) {
        // One break of the usual length, and what the others took.
        const int64_t middle = from + worked / 2;
        set_busy(s, false, middle);
        s.tenants[s.holder].idle_from = middle + rest -
                                        rest / static_cast<int64_t>(std::max<uint64_t>(
                                                   1, std::min<uint64_t>(bursts, kMostLaunches)));
        set_busy(s, true, middle + rest);
    }
}

void Board::close(uint64_t number, int64_t now)
{
    auto place = seats_.find(number);
    if (place == seats_.end()) return;
    now = std::max(now, state_.settled_at);
    read(now);
    Seat &seat = *place->second;
    if (seat.tenant != kNobody) {
        if (seat.waiting) unwant(state_, seat.tenant);
        leave(state_, seat.tenant, now);
    }
    seats_.erase(place);
}

// Wakes who waits for the token's word: one, as there is one thread that launches. Never waits
// itself.
void Board::say(Seat &seat, uint32_t token)
{
    if (seat.said == token) return;
    const bool wake = (token & (kMine | kClosing)) == kMine &&
                      (seat.said & (kMine | kClosing)) != kMine;
    seat.said = token;
    seat.desk.says->token.store(token, std::memory_order_seq_cst);
    if (wake) syscall(SYS_futex, &seat.desk.says->token, FUTEX_WAKE, 1, nullptr, nullptr, 0);
}

void Board::say_holders(uint32_t token)
{
    for (auto &[number, seat] : seats_)
        if (holds(*seat)) say(*seat, token);
}

bool Board::idle()
{
    return std::none_of(seats_.begin(), seats_.end(), [this](const auto &entry) {
        return holds(*entry.second) && entry.second->has_work();
    });
}

// The turn should have ended long ago, and its work makes no progress.
bool Board::stuck(int64_t now, int64_t *again) const
{
    int64_t latest = closing_at_;
    bool gates = true;
    for (const auto &[number, seat] : seats_) {
        if (!holds(*seat) || !seat->busy) continue;
        latest = std::max(latest, seat->under_way);
        gates = gates && seat->gates;
    }
    const int64_t at = gates ? closing_at_ + kStuckAtGate
                             : std::min(std::max(closing_at_ + kStuckAtGate, latest + kStuck),
                                        closing_at_ + kMostStuck);
    *again = std::min(*again, std::max(at, now));
    return now >= at;
}

void Board::pass(int64_t now, int64_t *again, int but)
{
    const int next = choose(state_, now, again, but);
    if (next == kNobody) return;
    grant(state_, next, now);
    say_holders(kMine | (others_wait() ? kTell : 0));
}

void Board::end(bool cut, int64_t now)
{
    // It had the token and did nothing with it, so it is not the next one, too.
    but_ = state_.idle_from <= state_.granted_at && !state_.busy ? state_.holder : kNobody;
    say_holders(0);
    end_turn(state_, cut, now);
    closing_ = false;
}

// Ends the turn if its tenant has no work. What it launches from now on waits for another turn.
bool Board::try_end(bool cut, int64_t now)
{
    if (!closing_) {
        closing_ = true;
        closing_at_ = now;
        say_holders(kMine | kClosing);
    }
    if (!idle()) return false;
    if (state_.busy) set_busy(state_, false, now);
    end(cut, now);
    return true;
}

bool Board::others_wait() const
{
    for (int i = 0; i < state_.tenant_end; ++i)
        if (i != state_.holder && state_.tenants[i].key[0] && state_.tenants[i].waiting)
            return true;
    return false;
}

// One decision. True: the turn has ended.
bool Board::step(int64_t now, int64_t *again)
{
    State &s = state_;
    if (s.holder == kNobody) return false;
    if (!s.tenants[s.holder].workers) {
        end(false, now);
        return true;
    }
    if (closing_) {
        if (try_end(true, now)) return true;
        if (!stuck(now, again)) return false;
        end(true, now);
        return true;
    }
    // Also without work: one who waits for each kernel would never reach its ceiling.
    if (should_stop(s, now, again)) return try_end(true, now);
    if (s.busy || !others_wait()) return false;
    const int64_t keep = may_keep_until(s);
    if (keep <= now) return try_end(false, now);
    *again = std::min(*again, keep);
    return false;
}

int64_t Board::look(int64_t now)
{
    now = std::max(now, state_.settled_at);
    read(now);
    int64_t again = INT64_MAX;
    // The next one may have gone, too.
    for (int i = 0; i < kMaxTenants; ++i) {
        if (!step(now, &again) && state_.holder != kNobody) break;
        if (state_.holder == kNobody) pass(now, &again, but_);
        but_ = kNobody;
        if (state_.holder == kNobody) break;
    }
    publish(now);
    bool waits = false, some = false;
    for (int i = 0; i < state_.tenant_end; ++i) {
        waits = waits || state_.tenants[i].waiting;
        some = some || state_.tenants[i].workers;
    }
    // Nor may a worker think its turn over, and run dry, when it only goes on.
    if (state_.holder != kNobody && state_.busy)
        again = std::min(again, std::max(state_.deadline, now + kLookWaiting));
    if (state_.holder != kNobody)
        again = std::min(again, now + (others_wait() ? kLookWaiting
                                       : state_.busy ? kLookWorking
                                                     : kLookIdle));
    else if (waits)
        again = std::min(again, now + kLookWorking);
    return some ? std::max(again, now + kNoLinger / 2) : INT64_MAX;
}

// What each worker is to know.
void Board::publish(int64_t now)
{
    const bool alone = tenants_with_workers(state_) <= 1, tell = others_wait();
    for (auto &[number, seat] : seats_) {
        if (seat->tenant == kNobody) continue;
        Says &says = *seat->desk.says;
        says.alone.store(alone, std::memory_order_relaxed);
        says.deadline.store(state_.deadline, std::memory_order_relaxed);
        if (holds(*seat)) {
            say(*seat, kMine | (closing_ ? kClosing : 0) | (tell ? kTell : 0));
        } else if (seat->waiting) {
            says.at_ceiling.store(at_ceiling(state_, seat->tenant), std::memory_order_relaxed);
        }
        if (seat->waiting) says.looked.store(now, std::memory_order_relaxed);
    }
}

std::vector<Given> Board::collect(int64_t now)
{
    read(std::max(now, state_.settled_at));
    std::vector<Given> all;
    for (int i = 0; i < state_.tenant_end; ++i) {
        Tenant &t = state_.tenants[i];
        if (!t.key[0] || t.given <= t.collected) continue;
        Given given{};
        copy_key(given.lease, t.key);
        given.nanoseconds = t.given - t.collected;
        t.collected = t.given;
        all.push_back(given);
    }
    return all;
}

std::vector<TenantView> Board::view(int64_t now)
{
    now = std::max(now, state_.settled_at);
    read(now);
    std::vector<TenantView> views;
    const State &s = state_;
    for (int i = 0; i < s.tenant_end; ++i) {
        const Tenant &t = s.tenants[i];
        if (!t.key[0]) continue;
        TenantView v{};
        copy_key(v.lease, t.key);
        v.terms = t.terms;
        v.workers = t.workers;
        v.holds = s.holder == i && s.busy;
        v.waits = t.waiting > 0;
        v.due = due(s, i, now);
        v.given_1s = given_in(s, i, now, kSecond);
        v.given_10s = given_in(s, i, now, 10 * kSecond);
        v.given_1min = given_in(s, i, now, 60 * kSecond);
        v.given_seconds = static_cast<double>(t.given) / kSecond;
        v.owed_seconds = static_cast<double>(t.lag) / kSecond;
        v.turns = static_cast<uint64_t>(t.turns);
        v.launches = static_cast<uint64_t>(t.launches);
        v.bytes = static_cast<uint64_t>(t.bytes);
        v.launches_per_s = t.launches_in.sum(now, kSecond);
        v.bytes_per_s = t.bytes_in.sum(now, kSecond);
        v.longest_s = static_cast<double>(t.longest) / kSecond;
        for (const auto &[number, seat] : seats_) {
            if (seat->tenant != i) continue;
            v.memory = std::max(v.memory, seat->memory);
            if (seat->under_way)
                v.running_s =
                    std::max(v.running_s, static_cast<double>(now - seat->under_way) / kSecond);
        }
        views.push_back(v);
    }
    return views;
}

}  // namespace rgpu::share
