// SPDX-License-Identifier: Apache-2.0
// Notices a program that waits for a kernel, or a kernel that waits for the program, by looking at
// memory that both use. Bytes travel at calls only: exchanging them at other times could show a
// flag before the data that it stands for. Says once what is wrong and what helps.
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <thread>

#include "interpose/base/background.h"
#include "interpose/base/log.h"
#include "interpose/mirror/state.h"
#include "interpose/state/client.h"
#include "interpose/state/process.h"
#include "interpose/state/servers.h"

namespace rgpu::interpose::mirror {

namespace {

using namespace std::chrono_literals;

constexpr auto kLook = 250ms;
constexpr int kQuietLooks = 8;  // 2 s

struct Watch {
    std::mutex mutex;
    std::condition_variable wanted;
    bool running = false, armed = false, over = false;
};

Watch &watch() { return client_part<EachServer<Watch>>(Part::kernel_watch)(); }

// Whether the program has written memory that a kernel may wait for.
bool program_wrote(Mirror &st)
{
    for (const Span &s : spans(st))
        if (s.any_time && s.kind == Kind::pinned &&
            memcmp(reinterpret_cast<void *>(s.host), s.twin, s.bytes))
            return true;
    return false;
}

// Whether one of the streams that got work still has some.
bool under_way(ServerSession &session, const std::vector<std::pair<HandleId, HandleId>> &streams)
{
    for (auto [context, stream] : streams) {
        Reply reply;
        CUresult r = session.ask(
            calls::CallId::cuStreamQuery, context, [id = stream](wire::Writer &w) { w.value(id); },
            reply);
        if (r == CUDA_ERROR_NOT_READY) return true;
    }
    return false;
}

// One look at a program that has made no call for a while: 1 warn, 0 look again later, -1 nothing
// is under way.
int look(ServerSession &session)
{
    Mirror &st = state();
    std::vector<std::pair<HandleId, HandleId>> streams;
    {
        std::unique_lock order(st.order, std::try_to_lock);
        if (!order || any_wait(st)) return 0;
        for (auto &[key, b] : st.busy) streams.emplace_back(b.context, static_cast<HandleId>(key));
        if (session.waited_for()) return program_wrote(st);
    }
    return under_way(session, streams) ? 1 : -1;
}

void run(ServerSession &session)
{
    const At at(session.index());
    Watch &w = watch();
    std::unique_lock lock(w.mutex);
    while (!session.state()) {
        w.wanted.wait(lock, [&] { return w.armed; });
        lock.unlock();
        uint32_t seen = session.frames_sent();
        int verdict = 0;
        for (int quiet = 0; !verdict && !session.state();) {
            std::this_thread::sleep_for(kLook);
            const uint32_t now = session.frames_sent();
            quiet = now == seen ? quiet + 1 : 0;
            seen = now;
            if (quiet < kQuietLooks) continue;
            verdict = look(session);
            seen = session.frames_sent();
        }
        lock.lock();
        w.armed = false;
        if (verdict <= 0) continue;
        w.over = true;
        say("warning: work that may use host memory (mapped, pinned or registered) has run for two "
            "seconds, and the program "
            "makes no CUDA call. With a remote GPU such memory is exchanged at CUDA calls only: if "
            "the program waits for a "
            "kernel by looking at it, or a kernel for the program, that never ends. Wait with "
            "cudaStreamSynchronize, "
            "cudaEventQuery or a host function instead.");
        return;
    }
}

}  // namespace

void arm_watch()
{
    Watch &w = watch();
    std::lock_guard lock(w.mutex);
    if (w.over || w.armed) return;
    w.armed = true;
    if (!w.running) w.running = start_thread(*session(), [s = session()] { run(*s); });
    w.over = !w.running;  // nobody looks, then
    w.wanted.notify_one();
}

}  // namespace rgpu::interpose::mirror
