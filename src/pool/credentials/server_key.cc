// SPDX-License-Identifier: Apache-2.0
#include "pool/credentials/server_key.h"

#include <fcntl.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "pool/credentials/openssl_ptr.h"
#include "util/fd.h"
#include "util/sha256.h"

namespace rgpu::pool {
namespace {

using Bio = OpensslPtr<BIO, BIO_free>;
using Certificate = OpensslPtr<X509, X509_free>;

Error cannot(const char *what, const std::string &path, const std::string &reason)
{
    return error(ErrorKind::invalid, "cannot %s %s: %s", what, path.c_str(), reason.c_str());
}

// Frees `der`.
std::string pin_of_der(unsigned char *der, int bytes)
{
    const Digest digest = sha256({reinterpret_cast<const char *>(der), static_cast<size_t>(bytes)});
    OPENSSL_free(der);
    char text[4 * ((sizeof(Digest) + 2) / 3) + 1];
    EVP_EncodeBlock(reinterpret_cast<unsigned char *>(text), digest.data(),
                    static_cast<int>(digest.size()));
    return std::string("sha256//") + text;
}

// False, with errno.
bool write_private(const std::string &path, std::string_view text)
{
    Fd file(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!file) return false;
    struct stat directory {};
    const std::string above = path.substr(0, path.find_last_of('/') + 1) + ".";
    if (geteuid() == 0 && (stat(above.c_str(), &directory) != 0 ||
                           fchown(file.get(), directory.st_uid, directory.st_gid) != 0))
        return false;
    return write(file.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()) &&
           fsync(file.get()) == 0;
}

}  // namespace

Result<void> make_server_key(const std::string &path)
{
    const ServerKey key(EVP_EC_gen("P-256"), EVP_PKEY_free);
    const Bio text(BIO_new(BIO_s_mem()));
    char *pem = nullptr;
    if (!key || !text ||
        !PEM_write_bio_PrivateKey(text.get(), key.get(), nullptr, nullptr, 0, nullptr, nullptr))
        return error(ErrorKind::internal, "OpenSSL cannot make a key");
    const auto bytes = static_cast<size_t>(BIO_get_mem_data(text.get(), &pem));
    const std::string fresh = path + ".made";
    unlink(fresh.c_str());
    if (!write_private(fresh, {pem, bytes}) || rename(fresh.c_str(), path.c_str()) != 0) {
        const std::string reason = strerror(errno);
        unlink(fresh.c_str());
        return cannot("write", path, reason);
    }
    return {};
}

Result<ServerKey> read_server_key(const std::string &path)
{
    const Fd file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
    struct stat about {};
    if (!file || fstat(file.get(), &about) != 0) return cannot("read", path, strerror(errno));
    if (about.st_mode & 0007)
        return cannot("use", path, "other users may read or write it: chmod 0600");
    const Bio in(BIO_new_fd(file.get(), BIO_NOCLOSE));
    char no_password[] = "";
    const ServerKey key(in ? PEM_read_bio_PrivateKey(in.get(), nullptr, nullptr, no_password)
                           : nullptr,
                        EVP_PKEY_free);
    if (!key) return cannot("use", path, "it holds no private key in PEM form without a password");
    return key;
}

std::string pin_of_key(const ServerKey &key)
{
    unsigned char *der = nullptr;
    const int bytes = i2d_PUBKEY(key.get(), &der);
    return bytes > 0 ? pin_of_der(der, bytes) : "";
}

Result<std::string> pin_of_certificate(std::string_view pem)
{
    const Bio in(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
    const Certificate certificate(in ? PEM_read_bio_X509(in.get(), nullptr, nullptr, nullptr)
                                     : nullptr);
    unsigned char *der = nullptr;
    const int bytes = certificate ? i2d_X509_PUBKEY(X509_get_X509_PUBKEY(certificate.get()), &der)
                                  : 0;
    if (bytes <= 0) return error(ErrorKind::invalid, "this is no certificate in PEM form");
    return pin_of_der(der, bytes);
}

}  // namespace rgpu::pool
