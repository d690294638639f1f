// SPDX-License-Identifier: Apache-2.0
// The scheduler's rules, on a clock of our own: tenants with kernels of some length, one GPU.
#include "share/policy.h"

#include <criterion/criterion.h>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

using namespace rgpu::share;

namespace {

struct Program {
    Terms terms;
    int64_t kernel = kMillisecond;
    // Of a program that works in bursts: so many kernels, then such a pause. 0: never a pause.
    int burst = 0;
    int64_t pause = 0;
    std::function<bool(int64_t)> on = [](int64_t) { return true; };
    // One kernel of another length, the first after that time.
    int64_t once = 0, once_at = 0;
};

// Carries out programs as workers would: launches while it has the token, one kernel at a time.
class Gpu {
public:
    explicit Gpu(std::vector<Program> programs)
        : programs_(std::move(programs)), state_(std::make_unique<State>())
    {
        reset(*state_, now_);
        for (size_t i = 0; i < programs_.size(); ++i)
            join(*state_, ("lease" + std::to_string(i)).c_str(), programs_[i].terms, now_);
        used_.resize(programs_.size());
        left_.resize(programs_.size());
        ready_.resize(programs_.size(), now_);
        for (size_t i = 0; i < programs_.size(); ++i) left_[i] = programs_[i].burst;
    }

    // Until the given second. What was used before counts no more.
    void run_to(double seconds)
    {
        std::fill(used_.begin(), used_.end(), 0);
        int64_t begin = now_, end = kStart + static_cast<int64_t>(seconds * kSecond);
        while (now_ < end) step();
        span_ = now_ - begin;
    }

    double percent(size_t i) const
    {
        return 100.0 * static_cast<double>(used_[i]) / static_cast<double>(span_);
    }
    double total() const
    {
        double sum = 0;
        for (size_t i = 0; i < used_.size(); ++i) sum += percent(i);
        return sum;
    }
    State &state() { return *state_; }
    int64_t now() const { return now_; }

private:
    static constexpr int64_t kStart = 1000 * kSecond, kTick = 50 * kMicrosecond;

    bool has_work(size_t i) const { return programs_[i].on(now_ - kStart) && ready_[i] <= now_; }

    void update_wants()
    {
        for (size_t i = 0; i < programs_.size(); ++i) {
            auto t = static_cast<int>(i);
            bool wants = has_work(i) && state_->holder != t;
            if (wants && !state_->tenants[t].waiting)
                want(*state_, t, now_);
            else if (!wants && state_->tenants[t].waiting)
                unwant(*state_, t);
        }
    }

    void step()
    {
        State &s = *state_;
        update_wants();
        if (s.holder == kNobody) {
            int next = choose(s, now_, nullptr);
            if (next == kNobody) {
                now_ += kTick;
                return;
            }
            grant(s, next, now_);
            update_wants();
        }
        auto h = static_cast<size_t>(s.holder);
        if (!has_work(h)) {
            set_busy(s, false, now_);
            if (now_ >= may_keep_until(s) && choose(s, now_, nullptr) != kNobody)
                end_turn(s, false, now_);
            else
                now_ += kTick;
            return;
        }
        if (should_stop(s, now_, nullptr)) {
            end_turn(s, true, now_);
            return;
        }
        set_busy(s, true, now_);
        int64_t kernel = programs_[h].kernel;
        if (programs_[h].once && now_ - kStart >= programs_[h].once_at)
            kernel = std::exchange(programs_[h].once, 0);
        now_ += kernel;
        used_[h] += kernel;
        settle(s, now_);
        if (programs_[h].burst && --left_[h] == 0) {
            left_[h] = programs_[h].burst;
            ready_[h] = now_ + programs_[h].pause;
        }
    }

    std::vector<Program> programs_;
    std::unique_ptr<State> state_;
    int64_t now_ = kStart, span_ = 1;
    std::vector<int64_t> used_, ready_;
    std::vector<int> left_;
};

void near(const Gpu &gpu, size_t tenant, double wanted, double within, const char *when)
{
    double got = gpu.percent(tenant);
    cr_expect(got > wanted - within && got < wanted + within,
              "%s: tenant %zu got %.2f%%, not %.1f +- %.1f", when, tenant, got, wanted, within);
}

constexpr Terms range(int least, int most, int weight = 100) { return {least, most, weight}; }

}  // namespace

Test(policy, busy_tenants_get_their_shares)
{
    for (double kernel : {0.2, 2.0, 20.0}) {
        auto k = static_cast<int64_t>(kernel * kMillisecond);
        Gpu gpu({{range(25, 100), k}, {range(35, 100), k}, {range(40, 100), k}});
        std::string when = std::to_string(kernel) + " ms kernels";
        for (int window = 1; window <= 6; ++window) {
            gpu.run_to(window * 5);
            near(gpu, 0, 25, 2, when.c_str());
            near(gpu, 1, 35, 2, when.c_str());
            near(gpu, 2, 40, 2, when.c_str());
        }
    }
}

Test(policy, kernels_of_different_lengths_do_not_matter)
{
    Gpu gpu({{range(25, 100), kMillisecond / 5},
             {range(35, 100), 2 * kMillisecond},
             {range(40, 100), 20 * kMillisecond}});
    gpu.run_to(30);
    near(gpu, 0, 25, 1, "mixed");
    near(gpu, 1, 35, 1, "mixed");
    near(gpu, 2, 40, 1, "mixed");
}

Test(policy, hard_ceilings_that_fill_the_gpu_are_reached)
{
    Gpu gpu({{range(25, 25)}, {range(35, 35)}, {range(40, 40)}});
    gpu.run_to(30);
    near(gpu, 0, 25, 1.5, "ceilings");
    near(gpu, 1, 35, 1.5, "ceilings");
    near(gpu, 2, 40, 1.5, "ceilings");
}

Test(policy, what_one_leaves_the_others_share_by_their_minimums)
{
    auto away = [](int64_t t) { return t < 10 * kSecond || t >= 20 * kSecond; };
    Gpu gpu({{range(25, 100)}, {range(35, 100)}, {range(40, 100), kMillisecond, 0, 0, away}});
    gpu.run_to(10.2);
    gpu.run_to(20);
    near(gpu, 0, 100 * 25 / 60.0, 2, "away");
    near(gpu, 1, 100 * 35 / 60.0, 2, "away");
    cr_expect(gpu.total() > 99);
    gpu.run_to(21);
    near(gpu, 2, 40, 8, "the first second back");
    gpu.run_to(26);
    near(gpu, 2, 40, 2, "back");
    near(gpu, 0, 25, 2, "back");
}

Test(policy, a_ceiling_holds_on_an_idle_gpu)
{
    for (double kernel : {0.2, 2.0, 20.0}) {
        Gpu gpu({{range(50, 50), static_cast<int64_t>(kernel * kMillisecond)}});
        gpu.run_to(10);
        near(gpu, 0, 50, 1, "ceiling");
    }
}

Test(policy, a_long_kernel_is_repaid)
{
    Program first = {range(25, 100)};
    first.once = 5 * kSecond;
    first.once_at = 5 * kSecond;
    Gpu gpu({first, {range(35, 100)}, {range(40, 100)}});
    gpu.run_to(11);
    gpu.run_to(20);
    near(gpu, 0, 0, 1, "while it repays");
    near(gpu, 1, 100 * 0.35 / 0.75, 2, "is repaid");
    near(gpu, 2, 100 * 0.40 / 0.75, 2, "is repaid");
    gpu.run_to(26);
    gpu.run_to(36);
    near(gpu, 0, 25, 1, "afterwards");
    Gpu all({first, {range(35, 100)}, {range(40, 100)}});
    all.run_to(30);
    near(all, 0, 25, 1, "with the long kernel");
    near(all, 1, 35, 1, "with the long kernel");
    near(all, 2, 40, 1, "with the long kernel");
}

Test(policy, best_effort_runs_in_gaps_only)
{
    auto gap = [](int64_t t) { return t < 5 * kSecond || t >= 10 * kSecond; };
    Gpu gpu({{range(60, 100), kMillisecond, 0, 0, gap}, {range(0, 100)}});
    gpu.run_to(5);
    near(gpu, 1, 0, 0.5, "beside a busy tenant");
    gpu.run_to(10);
    cr_expect(gpu.percent(1) > 97, "%.1f", gpu.percent(1));
    gpu.run_to(15);
    near(gpu, 1, 0, 0.5, "again");
}

Test(policy, a_best_effort_kernel_fits_between_the_bursts_of_another)
{
    Gpu gpu(
        {{range(50, 100), kMillisecond, 3, 10 * kMillisecond}, {range(0, 100), kMillisecond / 2}});
    gpu.run_to(10);
    cr_expect(gpu.percent(0) > 21, "%.1f", gpu.percent(0));
    cr_expect(gpu.percent(1) > 70, "%.1f", gpu.percent(1));
}

Test(policy, weights_divide_what_is_over)
{
    Gpu gpu({{range(20, 100, 300)}, {range(20, 100, 100)}});
    gpu.run_to(10);
    near(gpu, 0, 20 + 60 * 0.75, 2, "weight 3");
    near(gpu, 1, 20 + 60 * 0.25, 2, "weight 1");
}

Test(policy, short_bursts_do_not_wait_for_long_turns)
{
    // It wants 3 ms of every 13: less than its 40%, so it gets almost all of it.
    Gpu gpu({{range(60, 100)}, {range(40, 100), kMillisecond, 3, 10 * kMillisecond}});
    gpu.run_to(5);
    gpu.run_to(15);
    cr_expect(gpu.percent(1) > 18, "%.1f", gpu.percent(1));
    cr_expect(gpu.total() > 95, "%.1f", gpu.total());
}

Test(policy, a_newcomer_owes_nothing_and_is_owed_nothing)
{
    auto late = [](int64_t t) { return t >= 20 * kSecond; };
    Gpu gpu({{range(50, 100)}, {range(50, 100), kMillisecond, 0, 0, late}});
    gpu.run_to(20);
    gpu.run_to(21);
    near(gpu, 1, 50, 6, "the first second");
    near(gpu, 0, 50, 6, "the first second");
}

Test(policy, what_nobody_is_owed_any_more_is_no_debt)
{
    auto away = [](int64_t t) { return t < 5 * kSecond || t >= 10 * kSecond; };
    Gpu gpu({{range(50, 100), kMillisecond, 0, 0, [](int64_t) { return true; }, 2 * kSecond,
              5 * kSecond - kMillisecond},
             {range(50, 100), kMillisecond, 0, 0, away}});
    gpu.run_to(10);
    gpu.run_to(11);  // a twentieth of a second may still be owed, and as much be due
    near(gpu, 0, 50, 10, "the first second after the other is back");
    near(gpu, 1, 50, 10, "the first second after the other is back");
}

Test(policy, who_leaves_and_comes_back_keeps_its_debt)
{
    auto s = std::make_unique<State>();
    int64_t now = 5 * kSecond;
    reset(*s, now);
    int a = join(*s, "a", range(50, 100), now), b = join(*s, "b", range(50, 100), now);
    want(*s, b, now);
    want(*s, a, now);
    grant(*s, a, now);
    unwant(*s, a);
    set_busy(*s, true, now);
    now += 4 * kSecond;
    end_turn(*s, true, now);
    cr_expect(s->tenants[a].lag < -kSecond);
    leave(*s, a, now);
    now += kSecond / 10;
    cr_expect_eq(join(*s, "a", range(50, 100), now), a);
    cr_expect(s->tenants[a].lag < -kSecond);
    leave(*s, a, now);
    now += 30 * kSecond;
    settle(*s, now);
    now += kMillisecond;
    settle(*s, now);
    cr_expect_neq(s->tenants[a].key[0], 0, "what it was given is not in the books");
    s->tenants[a].collected = s->tenants[a].given;
    settle(*s, now += kMillisecond);
    cr_expect_eq(s->tenants[a].key[0], 0, "its place is free");
}

Test(policy, a_holder_without_work_loses_the_token_within_a_millisecond)
{
    auto s = std::make_unique<State>();
    int64_t now = 5 * kSecond;
    reset(*s, now);
    int a = join(*s, "a", range(50, 100), now);
    want(*s, a, now);
    grant(*s, a, now);
    cr_expect(may_keep_until(*s) <= now + kMillisecond, "it never launches");
    set_busy(*s, true, now);
    set_busy(*s, false, now + 3 * kMillisecond);
    cr_expect(may_keep_until(*s) <= now + 4 * kMillisecond, "its burst has ended");
}

Test(policy, quotas_are_bounded)
{
    auto s = std::make_unique<State>();
    int64_t now = 5 * kSecond;
    reset(*s, now);
    int a = join(*s, "a", range(100, 100), now);
    for (int i = 0; i < 40; ++i) {
        want(*s, a, now);
        grant(*s, a, now);
        unwant(*s, a);
        cr_expect(s->deadline - now >= kMinQuota && s->deadline - now <= kMaxQuota);
        set_busy(*s, true, now);
        now += i < 20 ? kSecond : kMicrosecond;
        end_turn(*s, i < 20, now);
        cr_expect(s->tenants[a].burst >= kMinQuota && s->tenants[a].burst <= kMaxQuota);
    }
}

Test(window, counts_what_is_within)
{
    auto w = std::make_unique<Window<uint32_t, 602, 100 * kMillisecond>>();
    w->clear();
    int64_t now = 1000 * kSecond;
    w->spread<1>(now - 500 * kMillisecond, now);
    cr_expect_float_eq(w->sum(now, kSecond), 0.5 * kSecond, 1);
    now += 700 * kMillisecond;
    cr_expect_float_eq(w->sum(now, kSecond), 0.3 * kSecond, 1);
    cr_expect_float_eq(w->sum(now, 10 * kSecond), 0.5 * kSecond, 1);
    now += 200 * kSecond;
    cr_expect_float_eq(w->sum(now, 60 * kSecond), 0, 1);
    w->spread<1>(now - 1000 * kSecond, now);
    cr_expect_float_eq(w->sum(now, 60 * kSecond), 60.0 * kSecond, 1);
}
