// SPDX-License-Identifier: Apache-2.0
#include "share/seat.h"

#include <linux/futex.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>

#include "share/window.h"

namespace rgpu::share {
namespace {

// Unfinished work of a tenant: that of one that is alone, so that a second one need not wait long;
// the least of one that is not, so that the GPU does not run dry.
constexpr int64_t kMostAhead = 200 * kMillisecond, kLeastAhead = 4 * kMillisecond;
// A wait is cut into such pieces: to see whether the scheduler is there, and to count what was
// waited for.
constexpr int64_t kPiece = 20 * kMillisecond;
// Who waits does so no longer for a scheduler that does not look.
constexpr int64_t kNoAnswer = 2 * kSecond;

}  // namespace

Seat::Seat(TenantEnd end) : end_(std::move(end)), says_(end_.says.get())
{
    nobodys_.token = kMine;
    nobodys_.alone = 1;
}

Result<std::unique_ptr<Seat>> Seat::take(int socket)
{
    Result<TenantEnd> end = take_tenant_end(socket);
    if (!end) return std::move(end).error();
    std::unique_ptr<Seat> seat(new Seat(std::move(*end)));
    seat->told().seated = 1;
    seat->tell();
    return seat;
}

int64_t Seat::ahead(int64_t now) const
{
    return alone() ? kMostAhead
                   : std::clamp(says().deadline.load(std::memory_order_relaxed) - now, kLeastAhead,
                                kMostAhead);
}

bool Seat::ask()
{
    Told &t = told();
    t.launches.fetch_add(1, std::memory_order_seq_cst);
    if (may_launch()) {
        if (asked_) t.waiting = 0;
        asked_ = 0;
        return true;
    }
    t.launches.fetch_sub(1, std::memory_order_seq_cst);
    const int64_t now = clock_now();
    if (!asked_) {
        asked_ = now;
        t.waiting = 1;
    }
    // Each time: where the token was taken away meanwhile, the launch that was counted for a moment
    // may have been seen.
    tell();
    return false;
}

void Seat::wait()
{
    const uint32_t seen = says().token.load();
    if ((seen & (kMine | kClosing)) == kMine) return;
    timespec limit{0, kPiece};
    syscall(SYS_futex, &says().token, FUTEX_WAIT, seen, &limit, nullptr, 0);
    if (may_launch()) return;
    const int64_t now = clock_now();
    pollfd line{end_.line.get(), 0, 0};
    if (poll(&line, 1, 0) == 1) {  // nobody is at the other end
        gone_ = true;
        go_without();
    } else if (now - std::max(asked_, says().looked.load(std::memory_order_relaxed)) > kNoAnswer) {
        go_without();
    }
}

void Seat::go_without()
{
    looked_ = end_.says->looked.load();
    says_ = &nobodys_;
}

void Seat::look_again()
{
    if (says_.load() == &nobodys_ && !gone_ && end_.says->looked.load() != looked_)
        says_ = end_.says.get();
}

void Seat::began(int64_t now)
{
    const uint64_t word = told().work.load(std::memory_order_relaxed);
    if (word & 1) return;
    told().bursts.fetch_add(1, std::memory_order_relaxed);
    told().work = work_word(true, static_cast<uint64_t>(now) - (word >> 1));
}

bool Seat::completed(uint64_t launches, int64_t now)
{
    told().completed.store(launches, std::memory_order_seq_cst);
    if (told().launches.load(std::memory_order_seq_cst) != launches) return false;
    const uint64_t word = told().work.load(std::memory_order_relaxed);
    if (word & 1) told().work = work_word(false, work_at(word, now));
    return says().token.load(std::memory_order_seq_cst) & (kClosing | kTell);
}

void Seat::tell()
{
    const uint64_t one = 1;
    // Full: it was rung.
    (void)!write(end_.bell.get(), &one, sizeof one);
}

}  // namespace rgpu::share
