// SPDX-License-Identifier: Apache-2.0
#include "worker/limits/turns.h"

#include <unistd.h>

#include <cstdio>

#include "util/units.h"
#include "worker/driver/driver.h"
#include "worker/limits/metering.h"

namespace rgpu::worker {

namespace {

constexpr int kExitLimit = 4;  // a kernel ran past max_kernel

}  // namespace

Turns::Turns(std::function<void(const std::string &)> tell, const serverd::WorkerStart &start)
    : tell_(std::move(tell)), lease_(start.lease.empty() ? "?" : start.lease),
      boards_(start.boards), max_kernel_(start.max_kernel)
{}

Turn *Turns::look_up(CUcontext context)
{
    auto it = of_context_.find(context);
    if (it == of_context_.end()) {
        CUdevice device = 0;
        // No context, or one that has failed: the launch will say so.
        if (!context || DRIVER(cuCtxGetDevice)(&device)) return nullptr;
        it = of_context_.emplace(context, of_device(device)).first;
    }
    last_context_ = context;
    return last_ = it->second;
}

Turn *Turns::of_device(CUdevice device)
{
    if (device < 0 || device >= kMaxDevices || static_cast<size_t>(device) >= boards_.size())
        return nullptr;
    std::atomic<Turn *> &slot = of_device_[device];
    if (slot) return slot;
    Turn::Settings settings;
    settings.lease = lease_;
    settings.meter = &Metering::here().gpu(device);
    settings.max_kernel = max_kernel_ * share::kMillisecond;
    settings.broke_limit = [this, lease = settings.lease, limit = settings.max_kernel,
                            device](int64_t ran) {
        char text[256];
        snprintf(text, sizeof text,
                 "a kernel has run for %.1f s on GPU %d, and the server's max_kernel is %s: this "
                 "program is ended\n",
                 static_cast<double>(ran) / share::kSecond, device,
                 format_duration(Milliseconds(limit / share::kMillisecond)).c_str());
        tell_(std::string("rgpu: ") + text);
        fprintf(stderr, "rgpu-worker: lease %.8s: %s", lease.c_str(), text);
        _exit(kExitLimit);
    };
    auto started = Turn::start(boards_[static_cast<size_t>(device)], std::move(settings));
    if (!started) {
        fprintf(stderr, "rgpu-worker: lease %.8s: GPU %d is used without turns: %s\n",
                lease_.c_str(), device, started.error().text.c_str());
        return nullptr;
    }
    slot = *started;
    started_.push_back(*started);
    slot.load()->gates(gates_);
    return slot;
}

void Turns::mark()
{
    for (Turn *t : started_) t->mark();
}

void Turns::forget(CUcontext context)
{
    for (Turn *t : started_) t->forget(context);
    of_context_.erase(context);
    if (last_context_ == context) last_context_ = nullptr, last_ = nullptr;
}

void Turns::look_at_memory()
{
    CUcontext current = nullptr;
    DRIVER(cuCtxGetCurrent)(&current);
    for (const auto &[context, turn] : of_context_)
        if (turn && !DRIVER(cuCtxSetCurrent)(context)) Metering::here().look_at_memory(true);
    DRIVER(cuCtxSetCurrent)(current);
}

void Turns::gate(bool closed)
{
    const uint32_t count = closed ? ++gates_ : --gates_;
    for (auto &slot : of_device_)
        if (Turn *t = slot.load()) t->gates(count);
}

}  // namespace rgpu::worker
