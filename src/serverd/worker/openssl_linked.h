// The OpenSSL that rgpu-worker is linked with, for net/tunnel.h.
#pragma once

#include "net/openssl.h"

namespace rgpu::worker {

Result<const net::Openssl *> linked_openssl();

}  // namespace rgpu::worker
