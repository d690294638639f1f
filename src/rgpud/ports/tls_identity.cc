// SPDX-License-Identifier: Apache-2.0
#include "rgpud/ports/tls_identity.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <unistd.h>

#include "pool/credentials/openssl_ptr.h"
#include "pool/credentials/server_key.h"
#include "util/log.h"

namespace rgpu::serverd {
namespace {

constexpr Milliseconds kLookAgain{1000};
// A certificate that is only a key's wrapping ends never (RFC 5280, 4.1.2.5).
constexpr const char *kBegins = "19700101000000Z", *kEnds = "99991231235959Z";

using Certificate = pool::OpensslPtr<X509, X509_free>;

// OpenSSL's own last words.
std::string why()
{
    char text[256] = "unknown";
    if (const unsigned long number = ERR_peek_last_error())
        ERR_error_string_n(number, text, sizeof text);
    ERR_clear_error();
    return text;
}

Error cannot_use(const std::string &path, const std::string &reason)
{
    return error(ErrorKind::invalid, "cannot use %s: %s", path.c_str(), reason.c_str());
}

// A certificate of the key, signed by itself.
Certificate wrap(EVP_PKEY *key)
{
    Certificate made(X509_new());
    if (!made) return nullptr;
    X509_NAME *name = X509_get_subject_name(made.get());
    const unsigned char text[] = "rgpud";
    // Ed25519 and Ed448 hash by themselves.
    const int id = EVP_PKEY_base_id(key);
    const EVP_MD *hash = id == EVP_PKEY_ED25519 || id == EVP_PKEY_ED448 ? nullptr : EVP_sha256();
    const bool done =
        X509_set_version(made.get(), X509_VERSION_3) &&
        ASN1_INTEGER_set(X509_get_serialNumber(made.get()), 1) &&
        ASN1_TIME_set_string_X509(X509_getm_notBefore(made.get()), kBegins) &&
        ASN1_TIME_set_string_X509(X509_getm_notAfter(made.get()), kEnds) &&
        X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, text, sizeof text - 1, -1, 0) &&
        X509_set_issuer_name(made.get(), name) && X509_set_pubkey(made.get(), key) &&
        X509_sign(made.get(), key, hash);
    return done ? std::move(made) : nullptr;
}

}  // namespace

Result<std::unique_ptr<TlsIdentity>> TlsIdentity::open(const RgpudConfig &config)
{
    Files files{config.control_key(), config.tls_certificate};
    if (config.tls_key.empty() && access(files.key.c_str(), F_OK) != 0)
        if (Result<void> made = pool::make_server_key(files.key); !made)
            return std::move(made).error();
    Result<Loaded> loaded = load(files);
    if (!loaded) return std::move(loaded).error();
    std::unique_ptr<TlsIdentity> identity(new TlsIdentity(std::move(files)));
    identity->loaded_ = std::move(*loaded);
    identity->looked_ = now();
    return identity;
}

Result<TlsIdentity::Loaded> TlsIdentity::load(const Files &files)
{
    Loaded loaded;
    loaded.state = files.state();
    Result<pool::ServerKey> key = pool::read_server_key(files.key);
    if (!key) return std::move(key).error();
    loaded.context = {SSL_CTX_new(TLS_server_method()), SSL_CTX_free};
    SSL_CTX *context = loaded.context.get();
    if (!context || !SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION))
        return error(ErrorKind::internal, "OpenSSL has no TLS 1.3: %s", why().c_str());
    SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_IGNORE_UNEXPECTED_EOF);
    SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                                  SSL_MODE_RELEASE_BUFFERS);
    // Connections live long enough, and nobody resumes one.
    SSL_CTX_set_num_tickets(context, 0);
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
    const Certificate own = files.certificate.empty() ? wrap(key->get()) : nullptr;
    const int certified =
        own ? SSL_CTX_use_certificate(context, own.get())
            : SSL_CTX_use_certificate_chain_file(context, files.certificate.c_str());
    if (certified != 1) return cannot_use(own ? files.key : files.certificate, why());
    if (SSL_CTX_use_PrivateKey(context, key->get()) != 1)
        return cannot_use(files.certificate,
                          "it is not the certificate of the key in " + files.key);
    loaded.pin = pool::pin_of_key(*key);
    return loaded;
}

std::shared_ptr<ssl_ctx_st> TlsIdentity::context()
{
    std::lock_guard lock(mutex_);
    if (const Time time = now(); time - looked_ >= kLookAgain) {
        looked_ = time;
        const std::string state = files_.state();
        if (state == loaded_.state) return loaded_.context;
        // Said once for each state: what is there may be half of a change.
        loaded_.state = state;
        if (Result<Loaded> fresh = load(files_)) {
            loaded_ = std::move(*fresh);
            log_info("control: the key is %s now", loaded_.pin.c_str());
        } else {
            log_error("control: %s; the key before it stays in use", fresh.error().text.c_str());
        }
    }
    return loaded_.context;
}

std::string TlsIdentity::pin()
{
    context();
    std::lock_guard lock(mutex_);
    return loaded_.pin;
}

}  // namespace rgpu::serverd
