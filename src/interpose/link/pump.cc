#include "interpose/link/pump.h"

#include <pthread.h>

#include <thread>

#include "interpose/base/background.h"
#include "interpose/base/thread_name.h"

namespace rgpu::interpose {

namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr auto kPatience = 20ms;  // how long the pump stays awake with nothing to do

}  // namespace

void Pump::start()
{
    calls_.set_watched(start_thread(connection_, [this] { run(); }));
}

bool Pump::ensure()
{
    const auto lock = calls_.lock();
    if (!calls_.is_watched()) start();
    return calls_.is_watched();
}

void Pump::run()
{
    pthread_setname_np(pthread_self(), kThreadName);
    auto busy_until = Clock::now();
    auto lock = calls_.lock();
    while (!connection_.state()) {
        if (!calls_.is_empty()) {
            busy_until = Clock::now() + kPatience;
            lock.unlock();
            std::this_thread::sleep_for(kDelay);
            lock.lock();
            calls_.flush();
        } else if (answers_.pushes_expected()) {
            lock.unlock();
            answers_.take_pushes();
            lock.lock();
        } else if (Clock::now() < busy_until) {
            lock.unlock();
            std::this_thread::sleep_for(kDelay);
            lock.lock();
        } else {
            calls_.sleep(lock);
        }
    }
}

}  // namespace rgpu::interpose
