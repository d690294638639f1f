// SPDX-License-Identifier: Apache-2.0
// Packed frames, as either side unpacks them: parts one behind the other, out of which a frame of
// some length is read.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "net/packing/unpacker.h"
#include "wire/packing.h"

using namespace rgpu;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    const uint8_t *at = data, *const end = data + bytes;
    auto raw = [&](void *to, size_t n) {
        if (n > static_cast<size_t>(end - at)) return false;
        memcpy(to, at, n);
        at += n;
        return true;
    };
    uint8_t methods = 0;
    wire::FrameHeader part, header;
    net::Unpacker unpacker(wire::kPartCall);
    if (!raw(&methods, 1)) return 0;
    unpacker.use(methods);
    static std::vector<uint8_t> body(1 << 20);
    while (raw(&part, sizeof part)) {
        part.type = wire::kPartCall;
        if (!unpacker.open(part) || !unpacker.read(&header, sizeof header, raw)) return 0;
        const size_t wanted = std::min<size_t>(header.bytes, body.size());
        if (!unpacker.read(body.data(), wanted, raw) || !unpacker.close()) return 0;
        if (unpacker.inside()) abort();
    }
    return 0;
}
