// SPDX-License-Identifier: Apache-2.0
#include "softgpu/driver/base/shared_event.h"

#include <linux/futex.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>

#include <cerrno>
#include <climits>
#include <cstring>

namespace rgpu::softgpu::driver {

Result<std::shared_ptr<SharedEvent>> SharedEvent::map(Fd fd)
{
    struct stat st = {};
    void *p =
        fstat(fd.get(), &st) || st.st_size != sizeof(Counters)
            ? MAP_FAILED
            : mmap(nullptr, sizeof(Counters), PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
    if (p == MAP_FAILED) return error(ErrorKind::invalid, "this is no event of another process");
    return std::shared_ptr<SharedEvent>(new SharedEvent(std::move(fd), static_cast<Counters *>(p)));
}

Result<std::shared_ptr<SharedEvent>> SharedEvent::create()
{
    auto fd = make_shared_file(sizeof(Counters));
    if (!fd) return std::move(fd).error();
    return map(std::move(*fd));
}

Result<std::shared_ptr<SharedEvent>> SharedEvent::open(const SharedFileName &name)
{
    auto fd = open_shared_file(name);
    if (!fd) return std::move(fd).error();
    return map(std::move(*fd));
}

SharedEvent::~SharedEvent() { munmap(counters_, sizeof(Counters)); }

uint64_t SharedEvent::record()
{
    counters_->recorder = getpid();
    return ++counters_->recorded;
}

void SharedEvent::pass(uint64_t number)
{
    uint64_t before = counters_->passed;
    while (before < number && !counters_->passed.compare_exchange_weak(before, number)) {}
    ++counters_->changes;
    syscall(SYS_futex, &counters_->changes, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

bool SharedEvent::passed(uint64_t number) const { return counters_->passed >= number; }

void SharedEvent::wait(uint64_t number) const
{
    for (;;) {
        const uint32_t changes = counters_->changes;
        if (passed(number)) return;
        const timespec limit = {0, 100'000'000};  // how soon the end of a process is noticed
        syscall(SYS_futex, &counters_->changes, FUTEX_WAIT, changes, &limit, nullptr, 0);
        if (!passed(number) && kill(counters_->recorder, 0) && errno == ESRCH) return;
    }
}

}  // namespace rgpu::softgpu::driver
