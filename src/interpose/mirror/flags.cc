// SPDX-License-Identifier: Apache-2.0
// Flags: shared memory that streams wait for or write (cuStreamWaitValue, cuStreamWriteValue). CUDA
// lets a program set and see them without a call, so bytes travel without one here, and a flag
// always behind the data that it stands for.
#include <algorithm>
#include <chrono>
#include <thread>

#include "interpose/base/background.h"
#include "interpose/mirror/state.h"
#include "interpose/state/process.h"
#include "interpose/state/servers.h"

namespace rgpu::interpose::mirror {

namespace {

using namespace std::chrono_literals;

// Between looks at the program's memory: at first while an answer is probably near, later.
constexpr std::chrono::microseconds kSoon = 20us, kLater = 1ms;
constexpr int kSoonLooks = 500;

bool met(uint64_t seen, const Flag::Wait &w)
{
    const bool wide = w.bytes == sizeof(uint64_t);
    if (!wide) seen = static_cast<uint32_t>(seen);
    switch (w.how & 3) {
    case CU_STREAM_WAIT_VALUE_GEQ:
        return wide ? static_cast<int64_t>(seen - w.value) >= 0
                    : static_cast<int32_t>(seen - w.value) >= 0;
    case CU_STREAM_WAIT_VALUE_EQ: return seen == w.value;
    case CU_STREAM_WAIT_VALUE_AND: return seen & w.value;
    default: return wide ? ~(seen | w.value) : static_cast<uint32_t>(~(seen | w.value));
    }
}

// One look: sends what the program has written once it has set a flag that a stream waits for.
// Whether more are waited for.
bool look(Mirror &st)
{
    bool set = false, more = false;
    for (auto &[address, flag] : st.flags) {
        if (flag.waits.empty()) continue;
        uint64_t now = 0;
        if (read_flag(st, address, flag.bytes, now))
            set |= std::erase_if(flag.waits, [&](const Flag::Wait &w) { return met(now, w); }) != 0;
        more |= !flag.waits.empty();
    }
    if (set) push(st);
    return more;
}

void run(ServerSession &session)
{
    const At at(session.index());
    Mirror &st = state();
    for (int looks = 0; !session.state(); looks++) {
        {
            std::lock_guard order(st.order);
            if (!look(st)) {
                st.looking = false;
                return;
            }
            if (st.new_waits) looks = 0;
            st.new_waits = false;
        }
        std::this_thread::sleep_for(looks < kSoonLooks ? kSoon : kLater);
    }
}

}  // namespace

bool any_wait(const Mirror &st)
{
    return std::any_of(st.flags.begin(), st.flags.end(),
                       [](const auto &entry) { return !entry.second.waits.empty(); });
}

void Work::flag(CUdeviceptr address, unsigned bytes)
{
    if (!order_) return;
    auto &f = state().flags[address];
    f.bytes = std::max(f.bytes, bytes);
}

CUresult Work::flag(CUdeviceptr address, unsigned bytes, uint64_t value, unsigned how)
{
    if (!order_) return CUDA_SUCCESS;
    Mirror &st = state();
    if (!st.looking) st.looking = start_thread(*session(), [s = session()] { run(*s); });
    if (!st.looking) return CUDA_ERROR_OPERATING_SYSTEM;
    flag(address, bytes);
    st.flags[address].waits.push_back({bytes, how, value, current_context(), stream_, st.works});
    st.new_waits = true;
    return CUDA_SUCCESS;
}

}  // namespace rgpu::interpose::mirror
