// SPDX-License-Identifier: Apache-2.0
#include "worker/connection/packing.h"

#include <cstring>

#include "net/packing/link_meter.h"
#include "net/packing/packer.h"
#include "net/packing/unpacker.h"

namespace rgpu::worker {

struct Packing::Ways {
    net::Packer out{static_cast<uint16_t>(wire::ServerFrame::part)};
    net::Unpacker in{wire::kPartCall};
    net::LinkMeter meter;
};

Packing::Packing(Input &input, Sender &sender) : input_(input), sender_(sender) {}
Packing::~Packing() = default;

Result<void> Packing::take(const wire::FrameHeader &h)
{
    const auto wrong = [] {
        return error(ErrorKind::invalid, "a word about packed frames that no client says");
    };
    wire::Packing told;
    if (h.bytes != sizeof told) return wrong();
    if (auto r = input_.read(&told, sizeof told); !r) return r;
    const bool asks = h.flags & wire::kWantsReply;
    if (told.wish > wire::PackWish::always || asks != (told.methods != 0)) return wrong();
    if (!ways_) ways_ = std::make_unique<Ways>();
    auto &[out, in, meter] = *ways_;
    sender_.use(out);
    // A client that packs whatever the link is told nothing of it.
    input_.use(in, told.wish == wire::PackWish::always ? nullptr : &meter,
               [this](uint64_t rate) { sender_.link(rate); });
    if (!asks) return {};
    const uint32_t common = told.methods & net::PackLibrary::here().methods();
    in.use(common);
    out.link_is(told.wish == wire::PackWish::slow_link ? told.rate : 0);
    out.use(common, told.wish == wire::PackWish::always);
    std::vector<uint8_t> body(sizeof common);
    memcpy(body.data(), &common, sizeof common);
    sender_.reply(h.sequence, CUDA_SUCCESS, body);
    return {};
}

}  // namespace rgpu::worker
