// SPDX-License-Identifier: Apache-2.0
#include "softgpu/driver/base/printing.h"

#include <atomic>
#include <cstdio>
#include <mutex>
#include <string>

namespace rgpu::softgpu::driver {

namespace {

constexpr size_t kKeep =
    size_t{1} << 20;  // CUDA's FIFO; but what does not fit goes out instead of being lost

struct Printing {
    std::mutex mutex;
    std::string kept;
    std::atomic<bool> any = false;
    void (*sink)(void *, const char *, size_t) = nullptr;
    void *data = nullptr;
};

Printing &printing()
{
    static auto *p = new Printing;
    return *p;
}

void put_out(Printing &p)
{
    fwrite(p.kept.data(), 1, p.kept.size(), stdout);
    fflush(stdout);
    p.kept.clear();
    p.any = false;
}

}  // namespace

void print_from_device(std::string_view text)
{
    Printing &p = printing();
    std::lock_guard lock(p.mutex);
    if (p.sink) return p.sink(p.data, text.data(), text.size());
    p.kept += text;
    p.any = true;
    if (p.kept.size() > kKeep) put_out(p);
}

void flush_prints()
{
    Printing &p = printing();
    if (!p.any.load(std::memory_order_acquire)) return;
    std::lock_guard lock(p.mutex);
    put_out(p);
}

}  // namespace rgpu::softgpu::driver

extern "C" [[gnu::visibility("default")]] void rgpu_softgpu_set_printf(
    void (*sink)(void *, const char *, size_t), void *data)
{
    auto &p = rgpu::softgpu::driver::printing();
    std::lock_guard lock(p.mutex);
    p.sink = sink;
    p.data = data;
}
