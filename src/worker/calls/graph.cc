// SPDX-License-Identifier: Apache-2.0
// The graph calls that the table's roles cannot describe. The layouts are described in
// interpose/api/graph.cc and capture.cc.
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <iterator>

#include "worker/calls/own.h"
#include "worker/driver/driver.h"

namespace rgpu::worker::own {

Result<void> cuGraphDestroy(Session &s, Call &call)
{
    const auto id = call.body.value<HandleId>();
    std::vector<HandleId> parts(call.body.count(sizeof(HandleId)));
    for (HandleId &part : parts) part = call.body.value<HandleId>();
    if (!call.body.at_end()) return misfit();
    CUgraph graph = nullptr;
    CUresult r = s.objects.get(id, graph);
    if (!r && !graph) r = CUDA_ERROR_INVALID_VALUE;
    if (!r && !DRIVER(cuGraphDestroy)) r = CUDA_ERROR_NOT_SUPPORTED;
    if (!r) r = DRIVER(cuGraphDestroy)(graph);
    // Their numbers are free in the client already.
    for (HandleId part : parts) s.objects.end(part);
    s.objects.end(id);
    s.finish(call, r);
    return {};
}

Result<void> cuGraphDebugDotPrint(Session &s, Call &call)
{
    const auto id = call.body.value<HandleId>();
    const auto flags = call.body.value<unsigned>();
    if (!call.body.at_end()) return misfit();
    CUgraph graph = nullptr;
    CUresult r = s.objects.get(id, graph);
    if (!r && !graph) r = CUDA_ERROR_INVALID_VALUE;
    if (!r && !DRIVER(cuGraphDebugDotPrint)) r = CUDA_ERROR_NOT_SUPPORTED;
    std::vector<uint8_t> text;
    // The driver writes a file; the client wants its text.
    char path[] = "/tmp/rgpu-graph-XXXXXX";
    const int fd = r ? -1 : mkstemp(path);
    if (!r && fd < 0) r = CUDA_ERROR_OPERATING_SYSTEM;
    if (!r) {
        r = DRIVER(cuGraphDebugDotPrint)(graph, path, flags);
        std::ifstream file(path, std::ios::binary);
        text.assign(std::istreambuf_iterator<char>(file), {});
        close(fd);
        unlink(path);
    }
    s.finish(call, r, text);
    return {};
}

Result<void> cuStreamGetCaptureInfo_v3(Session &s, Call &call)
{
    const auto id = call.body.value<HandleId>();
    if (!call.body.at_end()) return misfit();
    CUstream stream = nullptr;
    CUstreamCaptureStatus status{};
    cuuint64_t capture = 0;
    CUgraph graph = nullptr;
    const CUgraphNode *after = nullptr;
    const CUgraphEdgeData *edges = nullptr;
    size_t n = 0;
    CUresult r = s.objects.get(id, stream);
    if (!r && DRIVER(cuStreamGetCaptureInfo_v3))
        r = DRIVER(cuStreamGetCaptureInfo_v3)(stream, &status, &capture, &graph, &after, &edges,
                                              &n);
    else if (!r)
        r = DRIVER(cuStreamGetCaptureInfo_v2)
                ? DRIVER(cuStreamGetCaptureInfo_v2)(stream, &status, &capture, &graph, &after, &n)
                : CUDA_ERROR_NOT_SUPPORTED;
    std::vector<uint8_t> answer;
    wire::Writer w(answer);
    if (r || status != CU_STREAM_CAPTURE_STATUS_ACTIVE) graph = nullptr, n = 0, capture = 0;
    w.value(status), w.value(capture), w.value(s.objects.number(graph)), w.value(uint64_t{n});
    for (size_t i = 0; i < n; i++) w.value(s.objects.number(after[i]));
    for (size_t i = 0; i < n; i++) w.value(edges ? edges[i] : CUgraphEdgeData{});
    s.finish(call, r, answer);
    return {};
}

}  // namespace rgpu::worker::own
