// SPDX-License-Identifier: Apache-2.0
// Frames from a server, while a program copies and asks. The input: what the program does, and the
// stream that the server says, either as it is or as a row of frames with good headers. Nothing
// beside the program's memory is written.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "t/unit/recorder/support.h"

using namespace rgpu;
using namespace rgpu::test;

namespace {

constexpr size_t kBytes = 100, kGuard = 256;
constexpr uint8_t kUntouched = 0xa5;

CUresult copy(interpose::ServerSession &s, uint8_t *to)
{
    return s.copy_out(
        CallId::cuMemcpyDtoHAsync_v2, 0, [](wire::Writer &) {}, to, kBytes, true);
}

CUresult ask(interpose::ServerSession &s)
{
    interpose::Reply reply;
    return s.ask(
        CallId::cuCtxSynchronize, 0, [](wire::Writer &) {}, reply);
}

// A row of frames: type, flags and sequence of one of the first, length, body.
Bytes framed(const uint8_t *data, size_t bytes)
{
    Bytes stream;
    while (bytes >= 4) {
        const size_t body = std::min<size_t>(data[3], bytes - 4);
        const wire::FrameHeader header{
            static_cast<uint32_t>(body), static_cast<uint16_t>(data[0] % 9),
            static_cast<uint16_t>(data[1] % 8), data[2] % 4u, data[2] / 64u};
        recorder::add(stream, header);
        recorder::add(stream, data + 4, body);
        data += 4 + body, bytes -= 4 + body;
    }
    return stream;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    if (bytes == 0 || bytes > 60000) return 0;
    const Bytes stream = data[0] & 1 ? framed(data + 1, bytes - 1) : Bytes(data + 1, data + bytes);
    std::vector<uint8_t> memory(kGuard + kBytes + kGuard, kUntouched);
    from_broken_server(stream, [&](interpose::ServerSession &s) {
        if (data[0] & 2) (void)ask(s);
        const CUresult r = copy(s, memory.data() + kGuard);
        if (data[0] & 4) (void)ask(s);
        return r;
    });
    auto touched = [](uint8_t b) { return b != kUntouched; };
    if (std::any_of(memory.begin(), memory.begin() + kGuard, touched) ||
        std::any_of(memory.end() - kGuard, memory.end(), touched))
        abort();
    return 0;
}
