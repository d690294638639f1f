// SPDX-License-Identifier: Apache-2.0
// A worker's snapshot, as a client reads it.
#include <cstdlib>

#include "wire/snapshot.h"

using namespace rgpu::wire;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    const auto read = decode_snapshot(data, bytes);
    if (!read) return 0;
    // What was understood can be said, and is understood again.
    const std::vector<uint8_t> said = encode(*read);
    const auto again = decode_snapshot(said.data(), said.size());
    if (!again || encode(*again) != said) abort();
    return 0;
}
