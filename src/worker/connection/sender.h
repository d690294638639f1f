// SPDX-License-Identifier: Apache-2.0
// The way back to the client. Any thread; frames never mix, and go in the order in which their
// threads came. A client that is gone ends the process.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "calls/cuda_api.h"
#include "net/transport/transport.h"
#include "util/fair_mutex.h"
#include "wire/frame.h"

namespace rgpu::net {
class LanedTransport;
class Packer;
}  // namespace rgpu::net

namespace rgpu::worker {

class Sender {
public:
    explicit Sender(net::Transport &to) : to_(&to) {}
    // Called before the process ends because the client is gone, by whichever thread sees it. Once,
    // before the first frame.
    static void before_end(void (*function)());
    // From now on that way.
    void use(net::Transport &to);
    // Answers the client's word that lanes begin: behind that they have.
    void begin(uint32_t sequence, net::LanedTransport &, bool always);
    // From now on by its leave packed.
    void use(net::Packer &);

    void reply(uint32_t sequence, CUresult result, const std::vector<uint8_t> &body = {});
    // Bytes of a copy; `last` ends it. Behind many bytes, whoever else is there to run goes first.
    void data(uint32_t sequence, CUresult result, const void *bytes, size_t n, bool last);
    void text(std::string_view);
    // A stream has come to the host function of this token.
    void callback(uint64_t token, CUresult status);
    void snapshot(CUresult result, const std::vector<uint8_t> &body);
    // How the client's bytes come in (ServerFrame::link).
    void link(uint64_t rate);

private:
    void send(const wire::FrameHeader &, const void *body);
    void send_now(const void *first, size_t first_bytes, const void *second, size_t second_bytes);

    net::Transport *to_;
    net::Packer *packer_ = nullptr;
    FairMutex mutex_;
};

}  // namespace rgpu::worker
