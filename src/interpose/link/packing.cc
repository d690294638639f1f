// SPDX-License-Identifier: Apache-2.0
#include "interpose/link/packing.h"

#include "wire/frame.h"

namespace rgpu::interpose {

Packing::Packing(bool always)
    : out(wire::kPartCall), in(static_cast<uint16_t>(wire::ServerFrame::part)), always_(always)
{}

void Packing::link_is(uint64_t rate)
{
    out.link_is(rate);
    if (rate) changed_();
}

void Packing::received(size_t bytes, bool waits)
{
    if (always_ || !meter_.got(bytes, waits)) return;
    rate_ = meter_.rate();
    changed_();
}

}  // namespace rgpu::interpose
