// SPDX-License-Identifier: Apache-2.0
// The functions of OpenSSL (1.1.1 or newer) that the tunnel calls, as pointers: it is opened where
// a connection is encrypted, and nowhere else. To link it would cost each worker 2 ms at its start.
#pragma once

#include <locale.h>
#include <openssl/err.h>
#include <openssl/ssl.h>

#include "util/result.h"

namespace rgpu::net {

// clang-format off
#define RGPU_OPENSSL_FUNCTIONS(F) \
    F(OPENSSL_init_ssl) F(TLS_method) F(SSL_CTX_new) F(SSL_CTX_free) F(SSL_CTX_ctrl) \
    F(SSL_CTX_set_ciphersuites) F(SSL_CTX_set_num_tickets) F(SSL_new) F(SSL_free) \
    F(SSL_set_bio) F(SSL_set_connect_state) F(SSL_set_accept_state) F(SSL_do_handshake) \
    F(SSL_read) F(SSL_write) F(SSL_get_error) F(SSL_shutdown) \
    F(SSL_set_psk_use_session_callback) F(SSL_set_psk_find_session_callback) \
    F(SSL_SESSION_new) F(SSL_SESSION_free) F(SSL_SESSION_set1_master_key) \
    F(SSL_SESSION_set_cipher) F(SSL_SESSION_set_protocol_version) F(SSL_CIPHER_find) \
    F(BIO_new) F(BIO_s_mem) F(BIO_read) F(BIO_write) F(ERR_get_error) \
    F(ERR_error_string_n) F(ERR_clear_error)
// clang-format on

struct Openssl {
#define RGPU_MEMBER(name) decltype(&::name) name = nullptr;
    RGPU_OPENSSL_FUNCTIONS(RGPU_MEMBER)
#undef RGPU_MEMBER
    // Where these have a libc of their own: what every thread calls there first (uselocale with
    // LC_GLOBAL_LOCALE sets up the tables of ctype.h, which a libc does by itself only in threads
    // that it made). Such a thread must not end before the process does.
    decltype(&::uselocale) own_locale = nullptr;
};

// This host's libssl.so.3 (or .1.1), opened by dlmopen(3) with a libc of its own: whatever OpenSSL
// the program uses is another copy, and nothing is cleaned up below the other when the program
// exits. Looked for first in the directory openssl/ beside the library that calls this (the client
// bundle has it there). Once a process. Call it, and the functions, in threads of one's own that
// never end: each libc numbers its pthread keys by itself, and both keep the values in the same
// place, so that at a thread's end the program's destructors would get OpenSSL's values. Fails with
// `unsupported`, and the cure in the text.
Result<const Openssl *> private_openssl();

// The same by dlopen(3), for a process that is all ours. Fails with `unsupported`.
Result<const Openssl *> common_openssl();

}  // namespace rgpu::net
