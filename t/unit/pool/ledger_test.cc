// SPDX-License-Identifier: Apache-2.0
#include "pool/ledger/ledger.h"

#include <criterion/criterion.h>

using namespace rgpu;
using namespace rgpu::pool;
using namespace std::chrono_literals;

static const Time kStart = Time(Milliseconds(1000000));
static const Caller kAlice{1001, false}, kBob{1002, false}, kRoot{0, true};

static std::vector<GpuState> gpus(int count)
{
    std::vector<GpuState> gpus(static_cast<size_t>(count));
    for (int i = 0; i < count; ++i) {
        gpus[static_cast<size_t>(i)].index = i;
        gpus[static_cast<size_t>(i)].uuid = "GPU-" + std::to_string(i);
        gpus[static_cast<size_t>(i)].memory = 1000;
    }
    return gpus;
}

static Request want(int count, const Caller &caller, const std::string &job = "17",
                    Milliseconds term = 0ms)
{
    Request request;
    request.gpus = count;
    request.owner.uid = caller.uid;
    request.owner.job = job;
    request.owner.node = "cn1";
    request.term = term;
    return request;
}

struct Fixture {
    VolatileStore store;
    Ledger ledger;
    explicit Fixture(int count, Ledger::Limits limits = {}) : ledger(gpus(count), store, limits) {}

    Answer ask(int count, const Caller &caller, Time now)
    {
        auto offer = ledger.offer(caller, want(count, caller), now);
        cr_assert(offer.has_value());
        return offer->answer;
    }
    int free() const
    {
        int sum = 0;
        for (const GpuState &gpu : ledger.gpus()) sum += gpu.free_share;
        return sum;
    }
    Lease lease(int count, const Caller &caller, Time now, const std::string &job = "17",
                Milliseconds term = 0ms)
    {
        auto offer = ledger.offer(caller, want(count, caller, job, term), now);
        cr_assert(offer.has_value() && offer->answer == Answer::now);
        auto lease = ledger.accept(caller, offer->id, now);
        cr_assert(lease.has_value(), "%s", lease ? "" : lease.error().text.c_str());
        return *lease;
    }
};

Test(ledger, an_offer_locks_its_gpus_until_it_expires)
{
    Fixture f(4);
    cr_assert_eq(f.ask(3, kAlice, kStart), Answer::now);
    cr_assert_eq(f.free(), 100);
    cr_assert_eq(f.ask(2, kBob, kStart), Answer::later);
    cr_assert_eq(f.ask(2, kBob, kStart + 4999ms), Answer::later);
    cr_assert_eq(f.ask(2, kBob, kStart + 5000ms), Answer::now);
}

Test(ledger, a_rejected_offer_is_free_at_once)
{
    Fixture f(2);
    auto offer = f.ledger.offer(kAlice, want(2, kAlice), kStart);
    cr_assert_eq(f.ask(1, kBob, kStart), Answer::later);
    cr_assert(f.ledger.reject(kAlice, offer->id, kStart).has_value());
    cr_assert_eq(f.ask(1, kBob, kStart), Answer::now);
    cr_assert_not(f.ledger.reject(kAlice, offer->id, kStart).has_value(), "only once");
}

Test(ledger, an_expired_offer_cannot_be_accepted)
{
    Fixture f(2);
    auto offer = f.ledger.offer(kAlice, want(2, kAlice), kStart);
    auto lease = f.ledger.accept(kAlice, offer->id, kStart + 5s);
    cr_assert_not(lease.has_value());
    cr_assert_eq(lease.error().kind, ErrorKind::unsupported);
    cr_assert_eq(f.free(), 200);
}

Test(ledger, another_user_cannot_accept_or_reject_an_offer)
{
    Fixture f(2);
    auto offer = f.ledger.offer(kAlice, want(2, kAlice), kStart);
    cr_assert_not(f.ledger.accept(kBob, offer->id, kStart).has_value());
    cr_assert_not(f.ledger.reject(kBob, offer->id, kStart).has_value());
    cr_assert(f.ledger.accept(kAlice, offer->id, kStart).has_value());
}

Test(ledger, an_accepted_offer_is_held_past_its_lock)
{
    Fixture f(2);
    Lease lease = f.lease(2, kAlice, kStart);
    cr_assert_eq(lease.secret.size(), 32u);
    cr_assert_eq(lease.id.size(), 32u);
    cr_assert_eq(lease.gpus.size(), 2u);
    cr_assert_eq(f.ask(1, kBob, kStart + 1h), Answer::later);
    cr_assert(f.ledger.expire(kStart + 1h).empty());
}

Test(ledger, never_needs_no_lock)
{
    Fixture f(2);
    cr_assert_eq(f.ask(3, kAlice, kStart), Answer::never);
    cr_assert_eq(f.ledger.offer_count(), 0u);
}

Test(ledger, a_lease_with_a_term_ends_unless_renewed)
{
    Fixture f(2);
    Lease lease = f.lease(2, kAlice, kStart, "17", 60s);
    cr_assert_eq(lease.term, 60s);
    cr_assert(f.ledger.renew(kAlice, lease.id, kStart + 50s).has_value());
    cr_assert(f.ledger.expire(kStart + 100s).empty());
    cr_assert_neq(f.ledger.find(lease.id, kStart + 109s), nullptr);
    cr_assert_eq(f.ledger.find(lease.id, kStart + 110s), nullptr);
    auto ended = f.ledger.expire(kStart + 110s);
    cr_assert_eq(ended.size(), 1u);
    cr_assert_eq(ended[0].id, lease.id);
    cr_assert_eq(f.free(), 200);
    cr_assert(f.ledger.expire(kStart + 111s).empty(), "told once");
}

Test(ledger, a_server_limits_terms)
{
    Ledger::Limits limits;
    limits.max_term = 30s;
    Fixture f(2, limits);
    cr_assert_eq(f.lease(1, kAlice, kStart, "1", 0ms).term, 30s);
    cr_assert_eq(f.lease(1, kAlice, kStart, "2", 10s).term, 10s);
}

Test(ledger, the_next_expiry_is_the_earliest)
{
    Fixture f(3);
    cr_assert_eq(f.ledger.next_expiry(), kNever);
    f.lease(1, kAlice, kStart, "1", 60s);
    cr_assert_eq(f.ledger.next_expiry(), kStart + 60s);
    f.ask(1, kBob, kStart);
    cr_assert_eq(f.ledger.next_expiry(), kStart + 5s);
}

Test(ledger, a_lease_is_seen_renewed_and_ended_by_its_owner_and_administrators_only)
{
    Fixture f(2);
    Lease lease = f.lease(1, kAlice, kStart);
    cr_assert(f.ledger.leases(kBob, {}, kStart).empty());
    cr_assert_eq(f.ledger.leases(kAlice, {}, kStart).size(), 1u);
    cr_assert_eq(f.ledger.leases(kRoot, {}, kStart).size(), 1u);
    cr_assert_not(f.ledger.renew(kBob, lease.id, kStart).has_value());
    cr_assert_not(f.ledger.release(kBob, lease.id, kStart).has_value());
    cr_assert(f.ledger.release_job(kBob, {"17", "", false}, kStart)->empty());
    cr_assert(f.ledger.release(kRoot, lease.id, kStart).has_value());
    cr_assert_eq(f.free(), 200);
}

Test(ledger, secrets_are_listed_only_when_asked_for)
{
    Fixture f(1);
    f.lease(1, kAlice, kStart);
    cr_assert(f.ledger.leases(kAlice, {}, kStart)[0].secret.empty());
    cr_assert_eq(f.ledger.leases(kAlice, {"17", "cn1", true}, kStart)[0].secret.size(), 32u);
}

Test(ledger, a_job_s_leases_end_together)
{
    Fixture f(4);
    f.lease(1, kAlice, kStart, "17");
    f.lease(1, kAlice, kStart, "17");
    f.lease(1, kAlice, kStart, "18");
    cr_assert_eq(f.ledger.release_job(kRoot, {"17", "cn2", false}, kStart)->size(), 0u);
    cr_assert_eq(f.ledger.release_job(kRoot, {"17", "", false}, kStart)->size(), 2u);
    cr_assert_eq(f.ledger.release_job(kRoot, {"", "", false}, kStart)->size(), 0u,
                 "no job is no job's");
    cr_assert_eq(f.ledger.lease_count(), 1u);
}

Test(ledger, no_user_holds_more_offers_than_allowed)
{
    Ledger::Limits limits;
    limits.offers_of_user = 2;
    Fixture f(8, limits);
    f.ask(1, kAlice, kStart);
    f.ask(1, kAlice, kStart);
    auto third = f.ledger.offer(kAlice, want(1, kAlice), kStart);
    cr_assert_not(third.has_value());
    cr_assert_eq(third.error().kind, ErrorKind::exhausted);
    cr_assert_eq(f.ask(1, kBob, kStart), Answer::now);
}

// Everybody asks, accepts, rejects, releases at random: what is free and what is held add up to all
// there is.
Test(ledger, nothing_is_sold_twice_or_lost)
{
    Fixture f(8);
    uint32_t random = 12345;
    auto next = [&](uint32_t n) {
        random = random * 1664525 + 1013904223;
        return (random >> 8) % n;
    };
    std::vector<std::string> offers, leases;
    Time now = kStart;
    for (int step = 0; step < 20000; ++step) {
        now += Milliseconds(next(300));
        uint32_t what = next(10);
        if (what < 4) {
            Request request =
                want(1 + static_cast<int>(next(4)), kRoot, "17", Milliseconds(next(2) * 3000));
            request.share = 1 + static_cast<int>(next(100));
            auto offer = f.ledger.offer(kRoot, request, now);
            if (offer && offer->answer == Answer::now) offers.push_back(offer->id);
        } else if (what < 7 && !offers.empty()) {
            auto lease =
                f.ledger.accept(kRoot, offers[next(static_cast<uint32_t>(offers.size()))], now);
            if (lease) leases.push_back(lease->id);
        } else if (what < 8 && !offers.empty()) {
            (void)f.ledger.reject(kRoot, offers[next(static_cast<uint32_t>(offers.size()))], now);
        } else if (!leases.empty()) {
            (void)f.ledger.release(kRoot, leases[next(static_cast<uint32_t>(leases.size()))], now);
        }
        int held = 0;
        for (const Lease &lease : f.ledger.leases(kRoot, {}, now))
            for (const Portion &portion : lease.gpus) held += portion.share;
        for (const GpuState &gpu : f.ledger.gpus()) {
            cr_assert(gpu.free_share >= 0 && gpu.free_share <= 100);
            cr_assert_leq(gpu.free_memory, gpu.memory);
        }
        cr_assert_leq(f.free() + held, 800);
        if (f.ledger.offer_count() == 0) cr_assert_eq(f.free() + held, 800);
    }
    now += 1h;
    for (const Lease &lease : f.ledger.leases(kRoot, {}, now))
        (void)f.ledger.release(kRoot, lease.id, now);
    cr_assert_eq(f.free(), 800);
}

Test(ledger, what_an_ended_lease_had_can_be_kept_until_its_workers_are_gone)
{
    Fixture f(2);
    Lease lease = f.lease(2, kAlice, kStart);
    auto ended = f.ledger.release(kAlice, lease.id, kStart);
    cr_assert(ended.has_value());
    f.ledger.keep(*ended);
    cr_assert(f.ledger.leases(kRoot, {}, kStart).empty());
    cr_assert_eq(f.ask(1, kBob, kStart), Answer::later);
    f.ledger.let_go(lease.id);
    f.ledger.let_go(lease.id);
    cr_assert_eq(f.free(), 200);
}

// A store that cannot write.
struct FullDisk : VolatileStore {
    bool full = false;
    int room = 1000;  // how many leases it forgets before it is full
    Result<void> put(const Lease &) override { return fail(); }
    Result<void> erase(const std::string &) override
    {
        full |= room-- <= 0;
        return fail();
    }
    Result<void> fail()
    {
        return full ? Result<void>(error(ErrorKind::internal, "disk full")) : Result<void>();
    }
};

Test(ledger, what_cannot_be_kept_is_not_granted)
{
    FullDisk store;
    Ledger ledger(gpus(1), store, {});
    auto offer = ledger.offer(kAlice, want(1, kAlice), kStart);
    store.full = true;
    cr_assert_not(ledger.accept(kAlice, offer->id, kStart).has_value());
    cr_assert_eq(ledger.lease_count(), 0u);
    store.full = false;
    auto lease = ledger.accept(kAlice, offer->id, kStart);
    cr_assert(lease.has_value(), "the offer still stands");
    store.full = true;
    cr_assert_not(ledger.release(kAlice, lease->id, kStart).has_value());
    cr_assert_eq(ledger.lease_count(), 1u, "it would be back after a restart");
}

Test(ledger, what_ended_before_a_job_could_not_is_told)
{
    FullDisk store;
    Ledger ledger(gpus(3), store, {});
    for (int i = 0; i < 3; i++)
        (void)ledger.accept(kAlice, ledger.offer(kAlice, want(1, kAlice), kStart)->id, kStart);
    store.room = 2;
    cr_assert_not(ledger.release_job(kAlice, {"17", "", false}, kStart).has_value());
    cr_assert_eq(ledger.lease_count(), 1u);
    cr_assert_eq(ledger.next_expiry(), Time::min(), "at once");
    cr_assert_eq(ledger.expire(kStart).size(), 2u, "their workers must end");
    cr_assert(ledger.expire(kStart).empty());
}

Test(ledger, a_closed_one_offers_nothing_and_keeps_what_is_held)
{
    Fixture f(2);
    Lease held = f.lease(1, kAlice, kStart);
    f.ledger.close("health: disk: full");
    auto offer = f.ledger.offer(kBob, want(1, kBob), kStart);
    cr_assert_eq(offer->answer, Answer::later);
    cr_assert_eq(offer->reason, "health: disk: full");
    cr_assert_eq(f.ask(3, kBob, kStart), Answer::never, "what could never be is still never");
    for (const GpuState &gpu : f.ledger.gpus()) cr_assert_eq(gpu.drained, "health: disk: full");
    cr_assert(f.ledger.renew(kAlice, held.id, kStart).has_value());
    cr_assert(f.ledger.drain({"GPU-1", "new fans", 0}).has_value());
    cr_assert_eq(f.ledger.gpus()[1].drained, "new fans", "an administrator's word is shown first");
    f.ledger.close("");
    cr_assert_eq(f.ledger.gpus()[0].drained, "");
    cr_assert_eq(f.ledger.gpus()[1].drained, "new fans");
    cr_assert(f.ledger.resume("GPU-1").has_value());
    cr_assert_eq(f.ask(1, kBob, kStart), Answer::now);
}

Test(ledger, offers_only_what_is_lent_and_ends_the_leases_of_the_rest)
{
    Fixture f(3);
    Lease first = f.lease(1, kAlice, kStart), second = f.lease(1, kAlice, kStart, "18");
    f.ledger.offer_only({"GPU-1", "GPU-2"});
    cr_assert_eq(f.ledger.gpus()[0].drained, "not lent");
    cr_assert_eq(f.ledger.gpus()[2].drained, "");
    cr_assert_eq(f.ask(2, kBob, kStart), Answer::later);
    cr_assert_eq(f.lease(1, kBob, kStart).gpus[0].uuid, "GPU-2");
    cr_assert(f.ledger.drain({"GPU-0", "new fans", 0}).has_value());
    cr_assert_eq(f.ledger.gpus()[0].drained, "new fans", "an administrator's word is shown first");

    auto ended = f.ledger.release_of(first.gpus[0].uuid, kStart);
    cr_assert(ended.has_value() && ended->size() == 1 && (*ended)[0].id == first.id);
    cr_assert(f.ledger.find(second.id, kStart), "leases on other GPUs stay");
    cr_assert(f.ledger.release_of("GPU-0", kStart)->empty(), "there is none left");
    cr_assert(f.ledger.resume("GPU-0").has_value());
    f.ledger.offer_only({"GPU-0"});
    cr_assert_eq(f.lease(1, kBob, kStart).gpus[0].uuid, "GPU-0");
}

static Request span(int count, const Caller &caller)
{
    Request request = want(count, caller);
    request.span = "5a";
    return request;
}

Test(ledger, to_a_span_as_many_are_offered_as_there_are)
{
    Fixture f(3);
    f.lease(1, kBob, kStart);
    auto offer = f.ledger.offer(kAlice, span(4, kAlice), kStart);
    cr_assert(offer.has_value());
    cr_expect(offer->answer == Answer::now && offer->gpus.size() == 2 && offer->fitting == 3);
    cr_expect_eq(f.free(), 0, "they are locked");
    auto later = f.ledger.offer(kBob, span(1, kBob), kStart);
    cr_assert(later.has_value());
    cr_expect(later->answer == Answer::later && later->fitting == 3);
    Request large = span(4, kBob);
    large.memory = 2000;
    auto never = f.ledger.offer(kBob, large, kStart);
    cr_assert(never.has_value());
    cr_expect(never->answer == Answer::never && never->fitting == 0);
}

Test(ledger, of_an_offer_to_a_span_a_part_can_be_accepted)
{
    Fixture f(4);
    auto offer = f.ledger.offer(kAlice, span(6, kAlice), kStart);
    cr_assert(offer.has_value() && offer->gpus.size() == 4);
    cr_expect_not(f.ledger.accept(kAlice, offer->id, kStart, 5).has_value());
    cr_expect_not(f.ledger.accept(kAlice, offer->id, kStart, -1).has_value());
    auto lease = f.ledger.accept(kAlice, offer->id, kStart, 3);
    cr_assert(lease.has_value(), "%s", lease ? "" : lease.error().text.c_str());
    cr_expect(lease->gpus.size() == 3 && lease->span.id == "5a" && lease->span.gpus == 6);
    cr_expect_eq(f.free(), 100, "what is left is free at once");
    cr_expect_eq(f.ask(1, kBob, kStart), Answer::now);
    // The others of a lock are not given away in its place.
    Fixture used(3);
    used.lease(1, kBob, kStart);
    auto rest = used.ledger.offer(kAlice, span(2, kAlice), kStart);
    cr_assert(rest.has_value() && rest->gpus.size() == 2);
    auto one = used.ledger.accept(kAlice, rest->id, kStart, 1);
    cr_assert(one.has_value() && one->gpus.size() == 1);
    cr_expect(one->gpus[0].uuid == rest->gpus[0].uuid || one->gpus[0].uuid == rest->gpus[1].uuid);
    cr_expect_eq(used.free(), 100);
}

Test(ledger, without_a_span_an_offer_is_accepted_whole)
{
    Fixture f(2);
    auto offer = f.ledger.offer(kAlice, want(2, kAlice), kStart);
    cr_assert(offer.has_value());
    cr_expect_eq(offer->fitting, 0);
    cr_expect_not(f.ledger.accept(kAlice, offer->id, kStart, 1).has_value());
    auto lease = f.ledger.accept(kAlice, offer->id, kStart);
    cr_assert(lease.has_value());
    cr_expect(lease->span.id.empty());
}

// --- another size

static Lease half(Fixture &f, const Caller &caller, const char *job)
{
    Request request = want(1, caller, job);
    request.share = request.most = 40;
    request.memory = 300;
    auto offer = f.ledger.offer(caller, request, kStart);
    cr_assert(offer.has_value() && offer->answer == Answer::now);
    return *f.ledger.accept(caller, offer->id, kStart);
}

static Resize to(int share, uint64_t memory)
{
    Resize resize;
    if (share >= 0) resize.share = resize.most = share;
    resize.memory = memory;
    return resize;
}

Test(ledger, a_lease_gets_another_size)
{
    Fixture f(1);
    Lease lease = half(f, kAlice, "17");
    auto sizes = f.ledger.begin_resize(kAlice, lease.id, to(60, 200), kStart);
    cr_assert(sizes.has_value());
    cr_expect(sizes->before[0].share == 40 && sizes->after[0].share == 60);
    cr_expect(sizes->before[0].memory == 300 && sizes->after[0].memory == 200);
    cr_expect(f.ledger.gpus()[0].free_share == 40 && f.ledger.gpus()[0].free_memory == 700,
              "both sizes have room meanwhile");
    auto again = f.ledger.begin_resize(kAlice, lease.id, to(-1, 100), kStart);
    cr_expect(!again && again.error().kind == ErrorKind::unavailable, "one at a time");
    auto now = f.ledger.end_resize(kAlice, lease.id, true, kStart);
    cr_assert(now.has_value());
    cr_expect(now->gpus[0].share == 60 && now->gpus[0].memory == 200 && now->secret.empty());
    cr_expect(f.ledger.gpus()[0].free_share == 40 && f.ledger.gpus()[0].free_memory == 800);
    cr_expect_not(f.ledger.end_resize(kAlice, lease.id, true, kStart), "it has ended");
    // What is not said stays; what is undone is as it was.
    cr_assert(f.ledger.begin_resize(kAlice, lease.id, to(-1, 900), kStart).has_value());
    now = f.ledger.end_resize(kAlice, lease.id, false, kStart);
    cr_expect(now->gpus[0].share == 60 && now->gpus[0].memory == 200);
    cr_expect_eq(f.ledger.gpus()[0].free_memory, 800u);
}

Test(ledger, a_size_for_which_there_is_no_room_is_refused_with_who_has_it)
{
    Fixture f(1);
    Lease lease = half(f, kAlice, "17");
    half(f, kBob, "18");
    auto refused = f.ledger.begin_resize(kAlice, lease.id, to(70, 300), kStart);
    cr_assert(!refused && refused.error().kind == ErrorKind::exhausted);
    cr_expect(refused.error().text.find("could have 60%") != std::string::npos, "%s",
              refused.error().text.c_str());
    cr_expect(refused.error().text.find("another user has 40%") != std::string::npos, "%s",
              refused.error().text.c_str());
    cr_expect(refused.error().text.find("18") == std::string::npos, "whose it is he may not know");
    refused = f.ledger.begin_resize(kRoot, lease.id, to(-1, 800), kStart);
    cr_expect(!refused && refused.error().text.find("job 18 on cn1") != std::string::npos, "%s",
              refused.error().text.c_str());
    refused = f.ledger.begin_resize(kRoot, lease.id, to(-1, 1001), kStart);
    cr_expect(!refused && refused.error().kind == ErrorKind::invalid, "more than there is");
    cr_expect(!f.ledger.begin_resize(kBob, lease.id, to(-1, 200), kStart), "another's");
    cr_expect(f.ledger.begin_resize(kAlice, lease.id, to(60, 700), kStart).has_value(),
              "all that could be had");
}

Test(ledger, a_lease_that_ends_while_it_is_resized_leaves_nothing_taken)
{
    Fixture f(1);
    Lease lease = half(f, kAlice, "17");
    cr_assert(f.ledger.begin_resize(kAlice, lease.id, to(90, 100), kStart).has_value());
    cr_assert(f.ledger.release(kAlice, lease.id, kStart).has_value());
    cr_expect_not(f.ledger.end_resize(kAlice, lease.id, true, kStart).has_value());
    cr_expect(f.ledger.gpus()[0].free_share == 100 && f.ledger.gpus()[0].free_memory == 1000);
}

Test(ledger, a_drained_gpu_gives_nothing_more_and_takes_back)
{
    Fixture f(1);
    Lease lease = half(f, kAlice, "17");
    cr_assert(f.ledger.drain({"GPU-0", "broken fan", 1}).has_value());
    auto more = f.ledger.begin_resize(kAlice, lease.id, to(50, 0), kStart);
    cr_expect(!more && more.error().text.find("broken fan") != std::string::npos);
    cr_expect(f.ledger.begin_resize(kAlice, lease.id, to(30, 0), kStart).has_value());
}
