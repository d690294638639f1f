// SPDX-License-Identifier: Apache-2.0
// The captures under way.
#include "interpose/state/capture.h"

#include <algorithm>
#include <atomic>
#include <list>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

#include "interpose/state/client.h"
#include "interpose/state/contexts.h"

namespace rgpu::interpose {

namespace {

struct Capture {
    HandleId origin = 0;
    CUstreamCaptureMode mode{};
    std::thread::id thread = std::this_thread::get_id();
    std::set<HandleId> streams, events;  // that belong to it
    bool invalid = false;                // by a call that this client refused
};

struct Captures {
    std::atomic<size_t> count{0};
    std::mutex mutex;
    std::list<Capture> active;
};

Captures &captures() { return client_part<Captures>(Part::captures); }

thread_local CUstreamCaptureMode thread_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

// The capture that a stream or event belongs to, with the lock held; null when none.
Capture *of_stream(HandleId stream)
{
    for (Capture &c : captures().active)
        if (c.streams.contains(stream)) return &c;
    return nullptr;
}
Capture *of_event(HandleId event)
{
    for (Capture &c : captures().active)
        if (c.events.contains(event)) return &c;
    return nullptr;
}

// Work in the legacy default stream would wait for the context's blocking streams, and be waited
// for by them: while one of those is captured that is no longer possible, nor is the capture. With
// the lock held.
CUresult implicit_dependency()
{
    CUresult r = CUDA_SUCCESS;
    for (Capture &c : captures().active)
        for (HandleId stream : c.streams) {
            const Slot *s = Handles::get().at(stream);
            if (stream < calls::kFirstHandle || s->flags & CU_STREAM_NON_BLOCKING ||
                s->parent != current_context())
                continue;
            c.invalid = true;
            r = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
        }
    return r;
}

}  // namespace

bool any_capture() { return captures().count.load(std::memory_order_relaxed) != 0; }

bool is_captured(HandleId stream)
{
    if (!any_capture()) return false;
    std::lock_guard lock(captures().mutex);
    return of_stream(stream) != nullptr;
}

CUresult may_give_work(HandleId stream)
{
    if (!any_capture()) return CUDA_SUCCESS;
    std::lock_guard lock(captures().mutex);
    const bool legacy = stream == 0 || stream == static_cast<HandleId>(
                                                     reinterpret_cast<uintptr_t>(CU_STREAM_LEGACY));
    if (legacy) return implicit_dependency();
    Capture *c = of_stream(stream);
    return c && c->invalid ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : CUDA_SUCCESS;
}

void note_capture_result(HandleId stream, CUresult result)
{
    const bool invalidates = result == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED ||
                             result == CUDA_ERROR_STREAM_CAPTURE_MERGE ||
                             result == CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
    if (!invalidates || !any_capture()) return;
    std::lock_guard lock(captures().mutex);
    if (Capture *c = of_stream(stream)) c->invalid = true;
}

CUresult may_call_unsafe()
{
    if (thread_mode == CU_STREAM_CAPTURE_MODE_RELAXED) return CUDA_SUCCESS;
    CUresult r = CUDA_SUCCESS;
    std::lock_guard lock(captures().mutex);
    for (Capture &c : captures().active) {
        const bool forbids = c.thread == std::this_thread::get_id()
                                 ? c.mode != CU_STREAM_CAPTURE_MODE_RELAXED
                                 : c.mode == CU_STREAM_CAPTURE_MODE_GLOBAL &&
                                       thread_mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
        if (!forbids) continue;
        c.invalid = true;
        r = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    return r;
}

struct NewCapture::Noted {
    std::list<Capture> one = std::list<Capture>(1);
};

NewCapture::NewCapture(HandleId origin, CUstreamCaptureMode mode) : noted_(new Noted)
{
    Capture &c = noted_->one.front();
    c.origin = origin;
    c.mode = mode;
    c.streams.insert(origin);
}

NewCapture::~NewCapture() = default;

void NewCapture::begun()
{
    std::lock_guard lock(captures().mutex);
    captures().active.splice(captures().active.end(), noted_->one);
    captures().count++;
}

bool is_invalid_capture(HandleId stream)
{
    std::lock_guard lock(captures().mutex);
    const Capture *c = of_stream(stream);
    return c && c->invalid;
}

std::optional<EndingCapture> ending_capture(HandleId origin)
{
    std::lock_guard lock(captures().mutex);
    const Capture *c = of_stream(origin);
    if (!c || c->origin != origin) return std::nullopt;
    return EndingCapture{c->mode != CU_STREAM_CAPTURE_MODE_RELAXED &&
                             c->thread != std::this_thread::get_id(),
                         c->invalid};
}

void end_capture(HandleId origin)
{
    std::lock_guard lock(captures().mutex);
    captures().count -=
        std::erase_if(captures().active, [&](const Capture &c) { return c.origin == origin; });
}

void forget_captured_stream(HandleId stream)
{
    std::lock_guard lock(captures().mutex);
    captures().count -=
        std::erase_if(captures().active, [&](const Capture &c) { return c.origin == stream; });
    for (Capture &c : captures().active) c.streams.erase(stream);
}

void note_captured_record(HandleId event, HandleId stream)
{
    std::lock_guard lock(captures().mutex);
    for (Capture &c : captures().active) c.events.erase(event);
    if (Capture *c = of_stream(stream)) c->events.insert(event);
}

CUresult join_capture(HandleId stream, HandleId event)
{
    std::lock_guard lock(captures().mutex);
    Capture *of_its_own = of_stream(stream), *of_the_event = of_event(event);
    if (of_its_own && of_its_own != of_the_event) {
        of_its_own->invalid = true;
        return of_the_event ? CUDA_ERROR_STREAM_CAPTURE_MERGE : CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
    }
    if (of_the_event) of_the_event->streams.insert(stream);
    return CUDA_SUCCESS;
}

bool invalidate_capture_of(HandleId event)
{
    std::lock_guard lock(captures().mutex);
    Capture *c = of_event(event);
    if (!c) return false;
    c->invalid = true;
    return true;
}

CUstreamCaptureMode exchange_capture_mode(CUstreamCaptureMode mode)
{
    return std::exchange(thread_mode, mode);
}

}  // namespace rgpu::interpose
