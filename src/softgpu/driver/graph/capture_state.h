// A capture from the inside: for capture.cc and capture_api.cc. All under graph_lock().
#pragma once

#include <thread>

#include "softgpu/driver/graph/capture.h"

namespace rgpu::softgpu::driver {

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

std::vector<std::shared_ptr<Capture>> &active_captures();
void begin(const std::shared_ptr<Stream> &origin, const std::shared_ptr<Capture> &);
void join(const std::shared_ptr<Stream> &, const std::shared_ptr<Capture> &);
void finish(const std::shared_ptr<Capture> &);
void add_place(CapturePlace &, const std::vector<NodeRef> &);
// CUDA: the legacy default stream cannot even be asked while a blocking stream is being captured.
CUresult may_look(Stream &);
CUstreamCaptureMode &thread_capture_mode();

}  // namespace rgpu::softgpu::driver
