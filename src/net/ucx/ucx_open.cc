// SPDX-License-Identifier: Apache-2.0
// Opens UCX for a connection, or says that this build has none.
#include "net/ucx/ucx_transport.h"

#ifdef RGPU_UCX

#include <utility>

#include "net/ucx/ucx.h"
#include "net/ucx/ucx_connection.h"

namespace rgpu::net {

Result<std::unique_ptr<UcxTransport>> UcxTransport::open()
{
    auto ucx = private_ucx();
    if (!ucx) return std::move(ucx).error();
    auto connection = std::make_unique<UcxConnection>(**ucx);
    if (auto r = connection->start(); !r) return std::move(r).error();
    return std::unique_ptr<UcxTransport>(std::move(connection));
}

}  // namespace rgpu::net

#else

namespace rgpu::net {

Result<std::unique_ptr<UcxTransport>> UcxTransport::open()
{
    return error(ErrorKind::unsupported,
                 "this rgpu was built without UCX: build it where libucx-dev is installed");
}

}  // namespace rgpu::net

#endif
