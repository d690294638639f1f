// SPDX-License-Identifier: Apache-2.0
// The scheduler: order by dependencies, no thread held up by another, work on the calling thread.
#include "softgpu/driver/base/scheduler.h"

#include <criterion/criterion.h>

#include <atomic>
#include <random>
#include <thread>

using namespace rgpu::softgpu::driver;

static TaskRef task(std::function<void()> work) { return std::make_shared<Task>(std::move(work)); }
static Scheduler &scheduler()
{
    static auto *s = new Scheduler;
    return *s;
}

Test(driver_scheduler, every_task_runs_once_and_after_its_dependencies)
{
    constexpr int n = 5000;
    std::mt19937 random(3);
    std::vector<TaskRef> tasks;
    std::vector<std::vector<int>> after(n);
    auto *runs = new std::atomic<int>[n]();
    std::atomic<int> wrong = 0;
    for (int i = 0; i < n; i++) {
        std::vector<TaskRef> dependencies{nullptr};
        for (int k = 0; i && k < 3; k++) {
            after[i].push_back(static_cast<int>(random() % i));
            dependencies.push_back(tasks[after[i].back()]);
        }
        tasks.push_back(task([&, i] {
            for (int d : after[i]) wrong += runs[d] != 1;
            runs[i]++;
        }));
        scheduler().add(tasks.back(), dependencies);
    }
    for (const TaskRef &t : tasks) scheduler().wait(t);
    for (int i = 0; i < n; i++) cr_assert_eq(runs[i], 1);
    cr_expect_eq(wrong, 0);
}

Test(driver_scheduler, blocked_tasks_do_not_stop_others)
{
    std::atomic<int> arrived = 0;
    std::vector<TaskRef> tasks;
    constexpr int n = 40;
    // Each waits until all have come: they must all run at once.
    for (int i = 0; i < n; i++) {
        tasks.push_back(task([&] {
            arrived++;
            while (arrived < n) std::this_thread::yield();
        }));
        scheduler().add(tasks.back(), {});
    }
    for (const TaskRef &t : tasks) scheduler().wait(t);
    cr_expect_eq(arrived, n);
}

Test(driver_scheduler, the_caller_runs_its_task_in_its_turn)
{
    std::atomic<bool> gate = false;
    std::atomic<int> steps = 0;
    int seen = -1, later = -1;
    std::thread::id where;
    TaskRef first = task([&] {
        while (!gate) std::this_thread::yield();
        steps++;
    });
    TaskRef mine = task([&] {
        seen = steps++;
        where = std::this_thread::get_id();
    });
    TaskRef last = task([&] { later = steps++; });
    scheduler().add(first, {});
    scheduler().add_for_caller(mine, {first});
    scheduler().add(last, {mine});
    cr_expect(!scheduler().done(mine));
    gate = true;
    scheduler().run_by_caller(mine);
    scheduler().wait(last);
    cr_expect_eq(seen, 1);
    cr_expect_eq(later, 2);
    cr_expect(where == std::this_thread::get_id());
    cr_expect(scheduler().done(nullptr));
}

// What its work held is gone: a graph's memory is free once the stream that launched it is.
Test(driver_scheduler, work_is_destroyed_before_its_task_is_done)
{
    struct Slow {
        std::atomic<bool> &gone;
        ~Slow()
        {
            for (int i = 0; i < 1000; i++) std::this_thread::yield();
            gone = true;
        }
    };
    for (int i = 0; i < 20; i++) {
        std::atomic<bool> gone = false;
        TaskRef t = task([held = std::make_shared<Slow>(gone)] {});
        scheduler().add(t, {});
        scheduler().wait(t);
        cr_assert(gone);
    }
}

// Whoever sleeps is woken, also where two wait for different moments of the same task.
Test(driver_scheduler, others_wait_for_what_a_caller_runs, .timeout = 60)
{
    for (int round = 0; round < 200; round++) {
        std::atomic<bool> gate = false;
        std::atomic<int> waiting = 0;
        TaskRef first = task([&] {
            while (!gate) std::this_thread::yield();
        });
        TaskRef mine = task([] {});
        scheduler().add(first, {});
        scheduler().add_for_caller(mine, {first});
        std::vector<std::thread> others;
        for (int i = 0; i < 2; i++)
            others.emplace_back([&] {
                waiting++;
                scheduler().wait(mine);
            });
        std::thread caller([&] {
            waiting++;
            scheduler().run_by_caller(mine);
        });
        while (waiting < 3) std::this_thread::yield();
        if (round % 2) std::this_thread::yield();
        gate = true;
        caller.join();
        for (std::thread &t : others) t.join();
        cr_assert(scheduler().done(mine));
    }
}
