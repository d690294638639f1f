// SPDX-License-Identifier: Apache-2.0
// The key of a server's control port, and its pin: what rgpu.conf says that the key must be.
//
// A pin is "sha256//" and the base64 text of SHA-256 over the public key's SubjectPublicKeyInfo
// (RFC 7469, section 2.4), as curl's --pinnedpubkey has it. Any thread.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "util/result.h"

struct evp_pkey_st;  // OpenSSL's EVP_PKEY

namespace rgpu::pool {

using ServerKey = std::shared_ptr<evp_pkey_st>;

// Makes a key (ECDSA, P-256) and puts it in the place of the file, whole or not at all: PEM, mode
// 0600, and where root makes it, owned by the directory's owner, who is rgpud's account.
Result<void> make_server_key(const std::string &path);
// Fails with `invalid`, naming the file: it cannot be read, others may read it, it is no key.
Result<ServerKey> read_server_key(const std::string &path);

std::string pin_of_key(const ServerKey &key);
// Of the key of a certificate in PEM form. Fails with `invalid` where it is none.
Result<std::string> pin_of_certificate(std::string_view pem);

}  // namespace rgpu::pool
