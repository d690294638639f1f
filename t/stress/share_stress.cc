// SPDX-License-Identifier: Apache-2.0
// Workers that fight for one board, for the thread sanitizer (Criterion does not start under it):
// share_stress [SECONDS]
//
// Each worker is two threads, as rgpu-worker's dispatcher and its watching thread are; another is
// the scheduler. Ends with 1 where two tenants were on the GPU at once, or one never was.
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <mutex>
#include <thread>
#include <vector>

#include "share/board.h"
#include "share/seat.h"

using namespace rgpu::share;

namespace {

constexpr int kTenants = 3, kWorkersEach = 2;
std::atomic<bool> over{false};
std::atomic<int> on_gpu[kTenants];
std::atomic<int> overlaps{0};
std::atomic<long> kernels[kTenants];

void pause_for(long ns)
{
    timespec time = {0, ns};
    nanosleep(&time, nullptr);
}

struct Worker {
    std::unique_ptr<Seat> seat;
    std::mutex mutex;
    std::atomic<uint64_t> given{0}, done{0};

    void launch(int tenant)
    {
        for (uint64_t n = 0; !over; ++n) {
            while (given - done > 2 && !over) pause_for(10000);
            seat->told().launches++;
            if (!seat->may_launch() || seat->told().completed == n) {
                seat->told().launches--;
                while (!seat->ask()) seat->wait();
                std::lock_guard lock(mutex);
                seat->began(clock_now());
            }
            on_gpu[tenant]++;
            given++;
        }
    }
    void watch(int tenant)
    {
        while (!over) {
            if (given == done) {
                pause_for(10000);
                continue;
            }
            for (int other = 0; other < kTenants; ++other)
                overlaps += other != tenant && on_gpu[other];
            pause_for(200000);
            kernels[tenant]++;
            on_gpu[tenant]--;
            seat->told().bytes += 100;
            std::unique_lock lock(mutex);
            const bool tell = seat->completed(++done, clock_now());
            lock.unlock();
            if (tell) seat->tell();
        }
    }
};

}  // namespace

int main(int argc, char **argv)
{
    Board board(clock_now());
    std::vector<std::unique_ptr<Worker>> workers;
    std::vector<std::thread> threads;
    std::vector<Ends> opened;
    for (int i = 0; i < kTenants * kWorkersEach; ++i) {
        opened.push_back(std::move(*open_ends()));
        if (!board.open("lease" + std::to_string(i % kTenants), {30, 100, 100},
                        std::move(opened.back().desk)))
            return 1;
        workers.push_back(std::make_unique<Worker>());
        Worker *worker = workers.back().get();
        worker->seat = std::move(*Seat::take(opened.back().socket.get()));
        threads.emplace_back([worker, i] { worker->launch(i % kTenants); });
        threads.emplace_back([worker, i] { worker->watch(i % kTenants); });
    }
    timespec time = {argc > 1 ? atoi(argv[1]) : 3, 0};
    threads.emplace_back([&board] {
        while (!over) {
            board.look(clock_now());
            board.view(clock_now());
            pause_for(50000);
        }
        board.look(clock_now());
    });
    nanosleep(&time, nullptr);
    over = true;
    // Who waits goes on when the board's desks are gone, or after two seconds.
    for (std::thread &t : threads) t.join();
    printf("kernels: %ld %ld %ld; on the GPU together: %d\n", kernels[0].load(), kernels[1].load(),
           kernels[2].load(), overlaps.load());
    return overlaps || !kernels[0] || !kernels[1] || !kernels[2];
}
