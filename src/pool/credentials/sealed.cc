// SPDX-License-Identifier: Apache-2.0
#include "pool/credentials/sealed.h"

#include <openssl/evp.h>

#include "pool/credentials/openssl_ptr.h"
#include "util/sha256.h"

namespace rgpu::pool {
namespace {

constexpr size_t kKeyBytes = 32, kTagBytes = 16, kNonceBytes = 12;

using Key = OpensslPtr<EVP_PKEY, EVP_PKEY_free>;
using KeyContext = OpensslPtr<EVP_PKEY_CTX, EVP_PKEY_CTX_free>;
using Cipher = OpensslPtr<EVP_CIPHER_CTX, EVP_CIPHER_CTX_free>;

unsigned char *bytes(std::string &s) { return reinterpret_cast<unsigned char *>(s.data()); }
const unsigned char *bytes(std::string_view s)
{
    return reinterpret_cast<const unsigned char *>(s.data());
}

Error failed(const char *what) { return error(ErrorKind::internal, "OpenSSL cannot %s", what); }

Result<Key> new_key()
{
    KeyContext context(EVP_PKEY_CTX_new_id(EVP_PKEY_X25519, nullptr));
    EVP_PKEY *key = nullptr;
    if (!context || EVP_PKEY_keygen_init(context.get()) <= 0 ||
        EVP_PKEY_keygen(context.get(), &key) <= 0)
        return failed("make an X25519 key");
    return Key(key);
}

Result<std::string> public_part(EVP_PKEY *key)
{
    std::string part(kKeyBytes, 0);
    size_t size = part.size();
    if (EVP_PKEY_get_raw_public_key(key, bytes(part), &size) <= 0 || size != kKeyBytes)
        return failed("tell an X25519 key");
    return part;
}

// The key of the cipher, from one's own half and the other's public part.
Result<std::string> derive_cipher_key(EVP_PKEY *own, std::string_view other, std::string_view asker,
                                      std::string_view server, const std::string &lease)
{
    Key theirs(EVP_PKEY_new_raw_public_key(EVP_PKEY_X25519, nullptr, bytes(other), other.size()));
    KeyContext context(EVP_PKEY_CTX_new(own, nullptr));
    std::string agreed(kKeyBytes, 0);
    size_t size = agreed.size();
    // A key that leads to zeros whatever the other side has (RFC 7748, section 6.1) fails here.
    if (!theirs || !context || EVP_PKEY_derive_init(context.get()) <= 0 ||
        EVP_PKEY_derive_set_peer(context.get(), theirs.get()) <= 0 ||
        EVP_PKEY_derive(context.get(), bytes(agreed), &size) <= 0 || size != kKeyBytes)
        return error(ErrorKind::invalid, "the key is no X25519 public key");
    const Digest key = hmac_sha256(agreed, "rgpu lease secret 1\n" + std::string(asker) +
                                               std::string(server) + lease);
    return std::string(reinterpret_cast<const char *>(key.data()), key.size());
}

}  // namespace

struct SealKey::Pair {
    Key key;
    std::string shown;
};

Result<SealKey> SealKey::make()
{
    Result<Key> key = new_key();
    if (!key) return std::move(key).error();
    Result<std::string> shown = public_part(key->get());
    if (!shown) return std::move(shown).error();
    std::string text = to_hex(shown->data(), shown->size());
    return SealKey(std::make_shared<const Pair>(Pair{std::move(*key), std::move(*shown)}),
                   std::move(text));
}

Result<std::string> seal(const std::string &key, const std::string &lease, std::string_view secret)
{
    std::string asker;
    if (!from_hex(key, asker) || asker.size() != kKeyBytes)
        return error(ErrorKind::invalid, "key= must be an X25519 public key, 64 hex digits");
    Result<Key> own = new_key();
    if (!own) return std::move(own).error();
    Result<std::string> shown = public_part(own->get());
    if (!shown) return std::move(shown).error();
    Result<std::string> cipher_key = derive_cipher_key(own->get(), asker, asker, *shown, lease);
    if (!cipher_key) return std::move(cipher_key).error();
    Cipher cipher(EVP_CIPHER_CTX_new());
    const unsigned char nonce[kNonceBytes] = {};
    std::string sealed(secret.size() + kTagBytes, 0);
    int done = 0, rest = 0;
    if (!cipher ||
        EVP_EncryptInit_ex(cipher.get(), EVP_aes_256_gcm(), nullptr, bytes(*cipher_key), nonce) <=
            0 ||
        EVP_EncryptUpdate(cipher.get(), bytes(sealed), &done, bytes(secret),
                          static_cast<int>(secret.size())) <= 0 ||
        EVP_EncryptFinal_ex(cipher.get(), bytes(sealed) + done, &rest) <= 0 ||
        EVP_CIPHER_CTX_ctrl(cipher.get(), EVP_CTRL_GCM_GET_TAG, kTagBytes,
                            sealed.data() + secret.size()) <= 0)
        return failed("encrypt with AES-256-GCM");
    return *shown + sealed;
}

Result<std::string> SealKey::open(std::string_view sealed, const std::string &lease) const
{
    if (sealed.size() < kKeyBytes + kTagBytes)
        return error(ErrorKind::invalid, "the lease's sealed secret is too short");
    const std::string_view server = sealed.substr(0, kKeyBytes);
    std::string text(sealed.substr(kKeyBytes, sealed.size() - kKeyBytes - kTagBytes));
    std::string tag(sealed.substr(sealed.size() - kTagBytes));
    Result<std::string> cipher_key =
        derive_cipher_key(pair_->key.get(), server, pair_->shown, server, lease);
    if (!cipher_key) return std::move(cipher_key).error();
    Cipher cipher(EVP_CIPHER_CTX_new());
    const unsigned char nonce[kNonceBytes] = {};
    std::string secret(text.size(), 0);
    int done = 0, rest = 0;
    if (!cipher ||
        EVP_DecryptInit_ex(cipher.get(), EVP_aes_256_gcm(), nullptr, bytes(*cipher_key), nonce) <=
            0 ||
        EVP_DecryptUpdate(cipher.get(), bytes(secret), &done, bytes(std::string_view(text)),
                          static_cast<int>(text.size())) <= 0 ||
        EVP_CIPHER_CTX_ctrl(cipher.get(), EVP_CTRL_GCM_SET_TAG, kTagBytes, tag.data()) <= 0)
        return failed("decrypt with AES-256-GCM");
    if (EVP_DecryptFinal_ex(cipher.get(), bytes(secret) + done, &rest) <= 0)
        return error(
            ErrorKind::invalid,
            "the lease's secret was sealed for another key or lease, or was changed on the way");
    return secret;
}

}  // namespace rgpu::pool
