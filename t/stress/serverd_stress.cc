// SPDX-License-Identifier: Apache-2.0
// A worker's turns under the thread sanitizer: the dispatchers of two tenants with their watching
// threads, on a driver that is a thread: serverd_stress [SECONDS]
//
// This program exports the few functions of the driver that Turn calls. Ends with 1 where both
// tenants' kernels were on the GPU at once, or one's never were.
#include <unistd.h>

#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

#include "share/board.h"
#include "worker/driver/driver.h"
#include "worker/limits/turn.h"

using namespace rgpu;

namespace {

constexpr int kTenants = 2;

struct Event {
    bool done = true;
};

// What lies in a tenant's one stream: kernels, and events (which take no time).
struct Item {
    int tenant = 0;
    Event *event = nullptr;
};

struct Gpu {
    std::mutex mutex;
    std::condition_variable given, ended;
    std::deque<Item> queues[kTenants];
    long kernels[kTenants] = {}, on_it[kTenants] = {}, overlaps = 0;
    bool over = false;

    void give(Item item)
    {
        std::lock_guard lock(mutex);
        queues[item.tenant].push_back(item);
        given.notify_all();
    }
    // One thread a tenant: the driver would run both at the same time.
    void run(int tenant)
    {
        std::unique_lock lock(mutex);
        for (;;) {
            given.wait(lock, [&] { return over || !queues[tenant].empty(); });
            if (queues[tenant].empty()) return;
            Item item = queues[tenant].front();
            if (!item.event) {
                on_it[tenant]++;
                for (int other = 0; other < kTenants; other++)
                    overlaps += other != tenant && on_it[other];
                lock.unlock();
                timespec kernel = {0, 100000};
                nanosleep(&kernel, nullptr);
                lock.lock();
                on_it[tenant]--;
                kernels[tenant]++;
            } else {
                item.event->done = true;
                ended.notify_all();
            }
            queues[tenant].pop_front();
        }
    }
};

// Not destroyed: threads that never end use it.
Gpu &gpu()
{
    static Gpu &g = *new Gpu;
    return g;
}

thread_local CUcontext current = nullptr;
std::atomic<bool> over{false};

// Contexts and streams are numbers: tenant + 1.
int tenant_of(CUstream stream) { return static_cast<int>(reinterpret_cast<intptr_t>(stream)) - 1; }

void dispatch(worker::Turn *turn, int tenant)
{
    const auto handle = static_cast<intptr_t>(tenant + 1);
    const auto context = reinterpret_cast<CUcontext>(handle);
    const auto stream = reinterpret_cast<CUstream>(handle);
    current = context;
    static const char kinds[40] = {};
    for (long n = 0; !over; n++) {
        turn->begin(&kinds[n % 40 < 3 ? n % 40 : 0], stream);
        gpu().give({tenant, nullptr});
        turn->issued(context, stream);
        turn->copied(100);
        if (n % 50 == 49) turn->mark();
        if (n % 500 == 499) turn->forget(context);
        if (n % 700 == 0) {
            timespec pause = {0, 3000000};
            turn->mark();
            nanosleep(&pause, nullptr);
        }
    }
    turn->mark();
}

}  // namespace

extern "C" {
#define EXPORTED __attribute__((visibility("default"))) CUresult
EXPORTED cuInit(unsigned) { return CUDA_SUCCESS; }
EXPORTED cuCtxGetCurrent(CUcontext *context) { return *context = current, CUDA_SUCCESS; }
EXPORTED cuCtxSetCurrent(CUcontext context) { return current = context, CUDA_SUCCESS; }
EXPORTED cuStreamIsCapturing(CUstream, CUstreamCaptureStatus *status)
{
    *status = CU_STREAM_CAPTURE_STATUS_NONE;
    return CUDA_SUCCESS;
}
EXPORTED cuMemGetInfo_v2(size_t *free, size_t *total)
{
    return *free = 1, *total = 3, CUDA_SUCCESS;
}
EXPORTED cuEventCreate(CUevent *event, unsigned)
{
    return *event = reinterpret_cast<CUevent>(new Event), CUDA_SUCCESS;
}
EXPORTED cuEventDestroy_v2(CUevent event)
{
    return delete reinterpret_cast<Event *>(event), CUDA_SUCCESS;
}
EXPORTED cuEventRecord(CUevent event, CUstream stream)
{
    auto e = reinterpret_cast<Event *>(event);
    {
        std::lock_guard lock(gpu().mutex);
        e->done = false;
    }
    gpu().give({tenant_of(stream), e});
    return CUDA_SUCCESS;
}
EXPORTED cuEventQuery(CUevent event)
{
    std::lock_guard lock(gpu().mutex);
    return reinterpret_cast<Event *>(event)->done ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}
EXPORTED cuEventSynchronize(CUevent event)
{
    std::unique_lock lock(gpu().mutex);
    gpu().ended.wait(lock, [&] { return reinterpret_cast<Event *>(event)->done; });
    return CUDA_SUCCESS;
}
}

int main(int argc, char **argv)
{
    auto driver = worker::Driver::open("");  // this program
    if (!driver) {
        fprintf(stderr, "%s\n", driver.error().text.c_str());
        return 1;
    }
    share::Board board(share::clock_now());
    std::vector<share::Ends> places;
    worker::set_driver(*driver);
    std::vector<std::thread> threads, streams;
    worker::Turn *turns[kTenants] = {};
    static serverd::GpuMeter meters[kTenants];
    for (int i = 0; i < kTenants; i++) {
        worker::Turn::Settings settings;
        settings.lease = "lease" + std::to_string(i);
        settings.terms = {50, 100, 100};
        settings.meter = &meters[i];
        settings.max_kernel = 20 * share::kSecond;
        settings.broke_limit = [](int64_t) { _exit(1); };
        places.push_back(std::move(*share::open_ends()));
        if (!board.open(settings.lease, settings.terms, std::move(places.back().desk))) return 1;
        auto turn = worker::Turn::start(places.back().socket.get(), settings);
        if (!turn) {
            fprintf(stderr, "%s\n", turn.error().text.c_str());
            return 1;
        }
        turns[i] = *turn;
        streams.emplace_back([i] { gpu().run(i); });
        threads.emplace_back([i, turn = *turn] { dispatch(turn, i); });
    }
    // Host functions begin and end (to a stream that stands at one, turns owe less: the overlaps
    // would be no fault).
    threads.emplace_back([&] {
        timespec moment = {0, 2000000};
        for (uint32_t n = 0; !over; n++) {
            turns[n % kTenants]->gates(0);
            nanosleep(&moment, nullptr);
        }
    });
    // The scheduler.
    threads.emplace_back([&board] {
        timespec moment = {0, 100000};
        while (!over) {
            board.look(share::clock_now());
            nanosleep(&moment, nullptr);
        }
    });
    timespec time = {argc > 1 ? atoi(argv[1]) : 3, 0};
    nanosleep(&time, nullptr);
    over = true;
    for (std::thread &t : threads) t.join();
    {
        std::lock_guard lock(gpu().mutex);
        gpu().over = true;
        gpu().given.notify_all();
    }
    for (std::thread &t : streams) t.join();
    std::lock_guard lock(gpu().mutex);
    printf("kernels: %ld %ld; on the GPU together: %ld\n", gpu().kernels[0], gpu().kernels[1],
           gpu().overlaps);
    fflush(stdout);
    _exit(gpu().overlaps || !gpu().kernels[0] ||
          !gpu().kernels[1]);  // the watching threads never end
}
