// SPDX-License-Identifier: Apache-2.0
#include "interpose/link/pump.h"

#include <pthread.h>

#include <thread>

#include "interpose/base/background.h"
#include "interpose/base/thread_name.h"

namespace rgpu::interpose {

namespace {

using namespace std::chrono_literals;
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

void Pump::look_later(std::function<bool()> look)
{
    const auto lock = calls_.lock();
    if (look_at_ != Clock::time_point::max()) return;
    look_ = std::move(look);
    look_at_ = Clock::now() + kLookDelay;
    calls_.wake();
}

void Pump::look(CallBuffer::Lock &lock)
{
    look_at_ = Clock::time_point::max();
    const auto look = look_;
    lock.unlock();
    const bool again = look();
    lock.lock();
    if (again) look_at_ = Clock::now() + kLookDelay;
}

void Pump::run()
{
    pthread_setname_np(pthread_self(), kThreadName);
    auto busy_until = Clock::now();
    auto lock = calls_.lock();
    while (!connection_.state()) {
        if (Clock::now() >= look_at_) {
            look(lock);
        } else if (!calls_.is_empty()) {
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
        } else if (look_at_ == Clock::time_point::max()) {
            calls_.sleep(lock);
        } else {
            calls_.sleep_until(lock, look_at_);
        }
    }
}

}  // namespace rgpu::interpose
