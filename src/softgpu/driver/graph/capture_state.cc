// SPDX-License-Identifier: Apache-2.0
#include "softgpu/driver/graph/capture_state.h"

#include <algorithm>
#include <atomic>

#include "softgpu/driver/state/stream.h"

namespace rgpu::softgpu::driver {

namespace {

std::atomic<int> active_count = 0;  // so that calls cost nothing where nothing is captured

}  // namespace

bool capturing() { return active_count != 0; }

std::vector<std::shared_ptr<Capture>> &active_captures()
{
    static auto *all = new std::vector<std::shared_ptr<Capture>>;
    return *all;
}

void begin(const std::shared_ptr<Stream> &s, const std::shared_ptr<Capture> &capture)
{
    active_captures().push_back(capture);
    active_count++;
    join(s, capture);
}

void join(const std::shared_ptr<Stream> &s, const std::shared_ptr<Capture> &capture)
{
    s->captured.capture = capture;
    s->captured.after.clear();
    s->capturing = true;
    capture->streams.push_back(s);
}

void finish(const std::shared_ptr<Capture> &capture)
{
    for (const auto &weak : capture->streams)
        if (auto s = weak.lock()) {
            s->captured = {};
            s->capturing = false;
        }
    capture->streams.clear();
    capture->ended = true;
    if (std::erase(active_captures(), capture)) active_count--;
}

void add_place(CapturePlace &place, const std::vector<NodeRef> &nodes)
{
    for (const NodeRef &n : nodes)
        if (std::find(place.after.begin(), place.after.end(), n) == place.after.end())
            place.after.push_back(n);
}

CUresult may_look(Stream &stream)
{
    if (!capturing() || stream.kind != Stream::Kind::legacy) return CUDA_SUCCESS;
    for (const auto &capture : active_captures())
        for (const auto &weak : capture->streams)
            if (auto s = weak.lock(); s && &s->context == &stream.context && s->blocking())
                return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    return CUDA_SUCCESS;
}

CUstreamCaptureMode &thread_capture_mode()
{
    thread_local CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
    return mode;
}

}  // namespace rgpu::softgpu::driver
