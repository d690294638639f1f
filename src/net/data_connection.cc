#include "net/data_connection.h"

namespace rgpu::net {

Result<DataConnection> connect_data(const std::string &address, const std::string &lease, const std::string &secret,
                                    uint64_t table_digest, Deadline deadline)
{
    auto fd = connect(address, deadline);
    if (!fd) return std::move(fd).error();
    auto accepted = client_handshake(fd->get(), lease, secret, table_digest, deadline);
    if (!accepted) return std::move(accepted).error();
    if (!accepted->key) return DataConnection{std::move(*fd), nullptr, accepted->takes_offers};
    auto tunnel = Tunnel::open(std::move(*fd), Side::client, *accepted->key, private_openssl, deadline);
    if (!tunnel) return std::move(tunnel).error();
    Fd plain = (*tunnel)->take_plain();
    return DataConnection{std::move(plain), std::move(*tunnel), false};
}

void DataConnection::leave_to_parent()
{
    fd.reset();
    if (tunnel) tunnel->leave_to_parent();
}

}  // namespace rgpu::net
