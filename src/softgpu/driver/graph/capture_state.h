// SPDX-License-Identifier: Apache-2.0
// A capture from the inside, and all that are under way: for capture.cc and capture_api.cc. All
// under graph_lock(), but for capturing() and a thread's own mode.
#pragma once

#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "calls/cuda_api.h"
#include "softgpu/driver/graph/graph.h"
#include "softgpu/driver/state/capture_place.h"

namespace rgpu::softgpu::driver {

class Stream;

struct Capture {
    uint64_t id = 0;
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
    std::thread::id thread;  // that began it
    Stream *origin = nullptr;
    std::shared_ptr<Graph> graph;
    bool owns_graph = true;  // else the program gave it
    bool valid = true, ended = false;
    std::vector<std::weak_ptr<Stream>> streams;
    std::vector<NodeRef> left;  // newest nodes of streams that were destroyed
};

// Whether any is under way in the process: calls cost nothing where none is.
bool capturing();
std::vector<std::shared_ptr<Capture>> &active_captures();
// The stream is the first of a new capture; joins one that is under way; the capture is over, and
// its streams work again.
void begin(const std::shared_ptr<Stream> &origin, const std::shared_ptr<Capture> &);
void join(const std::shared_ptr<Stream> &, const std::shared_ptr<Capture> &);
void finish(const std::shared_ptr<Capture> &);
// What comes next in a stream also depends on these nodes.
void add_place(CapturePlace &, const std::vector<NodeRef> &);
// CUDA: the legacy default stream cannot even be asked while a blocking stream is being captured.
CUresult may_look(Stream &);
CUstreamCaptureMode &thread_capture_mode();

}  // namespace rgpu::softgpu::driver
