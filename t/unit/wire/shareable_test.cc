// SPDX-License-Identifier: Apache-2.0
// Names of shared memory: whatever bytes come, reading ends, and only a whole name is one.
#include <criterion/criterion.h>

#include <random>

#include "wire/shareable.h"

using namespace rgpu::wire;

namespace {

ShareableName some_name()
{
    ShareableName n{ShareableName::Kind::pool, 0x0123456789abcdef, {}, "5d41402abc4b2a76"};
    for (size_t i = 0; i < n.key.size(); i++) n.key[i] = static_cast<uint8_t>(i * 17);
    return n;
}

std::optional<ShareableName> decode(const std::vector<uint8_t> &bytes)
{
    return decode_shareable({reinterpret_cast<const char *>(bytes.data()), bytes.size()});
}

}  // namespace

Test(shareable, comes_back_as_it_was)
{
    const auto bytes = encode(some_name());
    const auto back = decode(bytes);
    cr_assert(back.has_value());
    cr_expect(back->kind == ShareableName::Kind::pool);
    cr_expect_eq(back->mailbox, some_name().mailbox);
    cr_expect(back->key == some_name().key);
    cr_expect(back->lease == "5d41402abc4b2a76");
}

Test(shareable, nothing_shorter_or_longer_is_a_name)
{
    auto bytes = encode(some_name());
    for (size_t n = 0; n < bytes.size(); n++)
        cr_expect_not(decode({bytes.begin(), bytes.begin() + static_cast<long>(n)}), "%zu", n);
    bytes.push_back(0);
    cr_expect_not(decode(bytes));
    ShareableName long_one = some_name();
    long_one.lease.assign(kMaxShareableName, 'x');
    cr_expect_not(decode(encode(long_one)));
}

Test(shareable, other_kinds_are_no_names)
{
    ShareableName n = some_name();
    for (uint32_t kind : {0u, 3u, ~0u}) {
        n.kind = static_cast<ShareableName::Kind>(kind);
        cr_expect_not(decode(encode(n)), "%u", kind);
    }
}

Test(shareable, random_bytes_do_no_harm)
{
    std::mt19937 dice(22);
    for (int i = 0; i < 20000; i++) {
        std::vector<uint8_t> bytes(dice() % 300);
        for (uint8_t &b : bytes) b = static_cast<uint8_t>(dice());
        if (i % 2 && bytes.size() > 4) bytes[0] = 1, bytes[1] = bytes[2] = bytes[3] = 0;
        if (const auto name = decode(bytes)) cr_expect_leq(name->lease.size(), kMaxShareableName);
    }
}
