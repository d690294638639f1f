// SPDX-License-Identifier: Apache-2.0
// A worker's frames, from a client that holds a lease: under the worker is the driver that notes
// its calls (t/recorder). The input is a row of frames: which line of the table, flags, how long
// the body is, its bytes. Every eighth has the type that the input says, whatever that is.
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "t/unit/recorder/support.h"

using namespace rgpu;
using namespace rgpu::test;

namespace {

constexpr size_t kHead = 6;
constexpr HandleId kHandles = 8;

// A worker that knows a few objects of each kind, by the first numbers.
Victim &victim()
{
    static Victim &made = *[] {
        use_recorder();
        worker::Objects objects;
        for (HandleId id = 1; id <= kHandles; id++)
            objects.set(id, reinterpret_cast<CUstream>(uintptr_t{0xd00000000} + id * 16));
        return new Victim(objects);
    }();
    return made;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    Bytes stream;
    uint32_t sequence = 0;
    while (bytes >= kHead) {
        uint16_t number, length;
        memcpy(&number, data, sizeof number);
        memcpy(&length, data + 4, sizeof length);
        const size_t body = std::min<size_t>(length, bytes - kHead);
        const bool any = data[3] % 8 == 0;
        const auto type = static_cast<uint16_t>(any ? number : number % calls::kCallCount);
        const uint32_t said = data[3] & 64 ? length : static_cast<uint32_t>(body);
        const wire::FrameHeader header{said, type, static_cast<uint16_t>(data[2] & 7), ++sequence,
                                       data[3] % (kHandles + 2)};
        recorder::add(stream, header);
        recorder::add(stream, data + kHead, body);
        data += kHead + body, bytes -= kHead + body;
    }
    (void)victim().takes(stream);
    return 0;
}
