// Threads that fight for one board, for the thread sanitizer (Criterion does not start under it): share_stress [SECONDS]
//
// Each thread is a worker of a tenant, as rgpu-worker's dispatcher and its watching thread are; another reads the board all
// the time. Ends with 1 where two tenants were on the GPU at once, or one never was.
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <thread>
#include <unistd.h>
#include <vector>

#include "share/board.h"

using namespace rgpu::share;

namespace {

constexpr int kTenants = 3, kWorkersEach = 2;
std::atomic<bool> over{false};
std::atomic<int> on_gpu[kTenants];
std::atomic<int> overlaps{0};
std::atomic<long> kernels[kTenants];

void work(Board &board, int tenant)
{
    auto place = board.sit("lease" + std::to_string(tenant), {30, 100, 100});
    if (!place) {
        fprintf(stderr, "%s\n", place.error().text.c_str());
        exit(1);
    }
    Seat &seat = board.seat(*place);
    for (uint64_t n = 0; !over; ++n) {
        seat.launches++;
        if (!board.may_launch(seat.tenant) || seat.completed == n) {
            seat.launches--;
            for (;;) {
                uint32_t call = board.call_of(*place);
                int64_t again = 0;
                if (board.ask(*place, clock_now(), again))
                    break;
                board.wait(*place, call, again);
            }
        }
        on_gpu[tenant]++;
        for (int other = 0; other < kTenants; ++other)
            overlaps += other != tenant && on_gpu[other];
        timespec kernel = {0, 200000};
        nanosleep(&kernel, nullptr);
        kernels[tenant]++;
        on_gpu[tenant]--;
        seat.bytes += 100;
        seat.completed = n + 1;
        board.completed(*place, clock_now());
    }
}

}  // namespace

int main(int argc, char **argv)
{
    std::string path = "/tmp/rgpu-share-stress." + std::to_string(getpid());
    auto file = Board::file(path);
    if (!file) {
        fprintf(stderr, "%s\n", file.error().text.c_str());
        return 1;
    }
    auto board = Board::map(file->get());
    unlink(path.c_str());
    std::vector<std::thread> threads;
    for (int i = 0; i < kTenants * kWorkersEach; ++i)
        threads.emplace_back([&board, i] { work(*board, i % kTenants); });
    threads.emplace_back([&board] {
        while (!over)
            board->view(clock_now());
    });
    timespec time = {argc > 1 ? atoi(argv[1]) : 3, 0};
    nanosleep(&time, nullptr);
    over = true;
    for (std::thread &t : threads)
        t.join();
    printf("kernels: %ld %ld %ld; on the GPU together: %d\n", kernels[0].load(), kernels[1].load(), kernels[2].load(), overlaps.load());
    return overlaps || !kernels[0] || !kernels[1] || !kernels[2];
}
