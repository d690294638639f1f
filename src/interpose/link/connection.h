// SPDX-License-Identifier: Apache-2.0
// One connection to a GPU server, and whether it stands.
//
// Owns the transport; lives as long as everything that sends or receives over it. Any thread may
// ask for the state and may lose it; who sends and who receives are others' to order
// (call_buffer.h, answers.h).
//
// Failure: there is one, and it is final. Whoever finds that the connection cannot go on calls
// lose(), which tells the user once, and from then on state() is what every call answers.
#pragma once

#include <atomic>
#include <cerrno>
#include <memory>
#include <string>

#include "calls/cuda_api.h"
#include "net/transport/laned_transport.h"

namespace rgpu::interpose {

class Connection {
public:
    // `server` as people are told of it: "gpu1 (gpu1:7711)".
    Connection(std::unique_ptr<net::Transport> transport, std::string server);

    net::Transport &transport() const { return *transport_; }
    // The transport, where further connections can join it; else null.
    net::LanedTransport *laned() const { return laned_; }
    const std::string &server() const { return server_; }

    // CUDA_SUCCESS while the connection stands, else the code that every call answers from then on.
    CUresult state() const { return lost_.load(std::memory_order_acquire); }
    // Ends the connection, for `why`.
    void lose(const char *why);
    // The same for what a system call has failed with; EBADF: the program closed our descriptor.
    void lose(int error);
    // False, and the connection is lost, where the program has closed our descriptor.
    bool is_ours()
    {
        if (transport_->ours()) [[likely]]
            return true;
        lose(EBADF);
        return false;
    }

    // The program has other servers, too: its user is told that only this one's GPUs are lost.
    void set_one_of_several() { one_of_several_ = true; }

private:
    const std::unique_ptr<net::Transport> transport_;
    net::LanedTransport *const laned_;
    const std::string server_;
    std::atomic<CUresult> lost_{CUDA_SUCCESS};
    std::atomic<bool> one_of_several_{false};
};

}  // namespace rgpu::interpose
