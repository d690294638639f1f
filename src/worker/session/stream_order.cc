// SPDX-License-Identifier: Apache-2.0
#include "worker/session/stream_order.h"

#include "worker/driver/driver.h"

namespace rgpu::worker {

namespace {

bool is_default(Copies::Key stream) { return static_cast<HandleId>(stream) < calls::kFirstHandle; }

bool waits_for_default(CUstream stream)
{
    unsigned flags = 0;
    return DRIVER(cuStreamGetFlags)(stream, &flags) || !(flags & CU_STREAM_NON_BLOCKING);
}

// Whether an order binds two streams to each other.
bool binds(Copies::Key key, CUstream stream, Copies::Key other_key, CUstream other)
{
    if (key == other_key) return true;
    return is_default(key) != is_default(other_key) &&
           waits_for_default(is_default(key) ? other : stream);
}

}  // namespace

Copies::Key stream_key(const Call &call, HandleId stream)
{
    const bool is_default = stream < calls::kFirstHandle;
    return Copies::Key{is_default ? call.header.value : 0} << 32 | (is_default ? 0 : stream);
}

bool is_apart(Session &s, Copies::Key key, CUstream stream)
{
    return copies_in_front(s, key, stream).empty();
}

std::vector<uint64_t> copies_in_front(Session &s, Copies::Key key, CUstream stream)
{
    return s.copies.which_open([&](Copies::Key other_key, const Copies::Copy &other) {
        return binds(key, stream, other_key, other.stream);
    });
}

void close_copies(Session &s)
{
    s.copies.close_all();
    DRIVER(cuCtxSetCurrent)(s.context());
}

}  // namespace rgpu::worker
