// SPDX-License-Identifier: Apache-2.0
#include "cli/parts/holder.h"

#include <sys/socket.h>

#include <cerrno>

#include "net/handshake/handshake.h"
#include "util/units.h"

namespace rgpu::cli {

void Holder::connect()
{
    constexpr Milliseconds kLimit{2000};
    net::Deadline deadline = net::Clock::now() + kLimit;
    Result<Fd> socket = net::connect(grant_.data_address, deadline);
    socket_.reset();
    if (socket && net::client_handshake(socket->get(), grant_.lease.id, grant_.lease.secret, 0,
                                        deadline, wire::Purpose::hold))
        socket_ = std::move(*socket);
}

bool Holder::is_there() const
{
    char byte;
    return socket_ && recv(socket_.get(), &byte, 1, MSG_DONTWAIT | MSG_PEEK) < 0 &&
           (errno == EAGAIN || errno == EINTR);
}

}  // namespace rgpu::cli
