// SPDX-License-Identifier: Apache-2.0
#include "interpose/link/connection.h"

#include <cerrno>
#include <cstring>
#include <utility>

#include "interpose/base/log.h"

namespace rgpu::interpose {

Connection::Connection(std::unique_ptr<net::Transport> transport, std::string server)
    : transport_(std::move(transport)),
      laned_(dynamic_cast<net::LanedTransport *>(transport_.get())), server_(std::move(server))
{}

void Connection::lose(const char *why)
{
    CUresult stands = CUDA_SUCCESS;
    if (lost_.compare_exchange_strong(stands, CUDA_ERROR_EXTERNAL_DEVICE))
        say("lost the GPU server %s: %s; every CUDA call %sfails from now on", server_.c_str(), why,
            one_of_several_ ? "for its GPUs " : "");
    transport_->shutdown();
}

void Connection::lose(int error)
{
    lose(error == EBADF ? "the program has closed the connection's descriptor" : strerror(error));
}

}  // namespace rgpu::interpose
