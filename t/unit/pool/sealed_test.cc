// SPDX-License-Identifier: Apache-2.0
#include "pool/credentials/sealed.h"

#include <criterion/criterion.h>

using namespace rgpu;
using namespace rgpu::pool;

static const std::string kLease = "0123456789abcdef0123456789abcdef";
static const std::string kSecret(32, 's');

static SealKey key()
{
    Result<SealKey> made = SealKey::make();
    cr_assert(made, "%s", made ? "" : made.error().text.c_str());
    return std::move(*made);
}

Test(sealed, whoever_asked_reads_the_secret)
{
    const SealKey asker = key();
    cr_assert_eq(asker.text().size(), 64u);
    Result<std::string> sealed = seal(asker.text(), kLease, kSecret);
    cr_assert(sealed);
    cr_assert_eq(sealed->find(kSecret), std::string::npos);
    Result<std::string> secret = asker.open(*sealed, kLease);
    cr_assert(secret && *secret == kSecret);
}

Test(sealed, the_same_secret_never_looks_the_same)
{
    const SealKey asker = key();
    cr_assert(*seal(asker.text(), kLease, kSecret) != *seal(asker.text(), kLease, kSecret));
    cr_assert(key().text() != key().text());
}

Test(sealed, another_key_or_lease_reads_nothing)
{
    const SealKey asker = key(), other = key();
    const std::string sealed = *seal(asker.text(), kLease, kSecret);
    cr_assert_not(other.open(sealed, kLease));
    cr_assert_not(asker.open(sealed, std::string(32, '0')));
}

Test(sealed, every_changed_bit_is_noticed)
{
    const SealKey asker = key();
    const std::string sealed = *seal(asker.text(), kLease, kSecret);
    for (size_t bit = 0; bit < sealed.size() * 8; ++bit) {
        std::string changed = sealed;
        changed[bit / 8] = static_cast<char>(changed[bit / 8] ^ (1 << bit % 8));
        cr_assert_not(asker.open(changed, kLease), "bit %zu", bit);
    }
    for (size_t size = 0; size < sealed.size(); ++size)
        cr_assert_not(asker.open(sealed.substr(0, size), kLease), "%zu bytes", size);
}

Test(sealed, what_is_no_key_is_refused)
{
    for (std::string bad :
         {std::string(), std::string("zz"), std::string(62, 'a'), std::string(66, 'a'),
          std::string(63, 'a') + "g", std::string(64, '0')}) {
        Result<std::string> sealed = seal(bad, kLease, kSecret);
        cr_assert_not(sealed, "%s", bad.c_str());
        cr_assert_eq(sealed.error().kind, ErrorKind::invalid);
    }
}

Test(sealed, nothing_can_be_sealed_too)
{
    const SealKey asker = key();
    const std::string sealed = *seal(asker.text(), kLease, {});
    cr_assert_eq(sealed.size(), 32u + 16u, "the server's key and the tag");
    cr_assert(asker.open(sealed, kLease)->empty());
}
