// SPDX-License-Identifier: Apache-2.0
// SHA-256 and HMAC against the vectors of FIPS 180-4's examples and RFC 4231.
#include <criterion/criterion.h>

#include <cstring>
#include <vector>

#include "util/sha256.h"

using namespace rgpu;

Test(sha256, of_the_standards_examples)
{
    struct {
        std::string text;
        const char *digest;
    } examples[] = {
        {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
        {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
        {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
         "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
        {std::string(1000000, 'a'),
         "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"},
    };
    for (const auto &e : examples)
        cr_expect(to_hex(sha256(e.text)) == e.digest, "%.20s", e.text.c_str());
}

Test(sha256, is_the_same_in_pieces)
{
    std::string text;
    for (int i = 0; i < 300; i++) text += static_cast<char>(i);
    for (size_t cut = 0; cut <= text.size(); cut += 7) {
        Sha256 h;
        h.add(text.substr(0, cut)).add(text.substr(cut));
        cr_expect(h.digest() == sha256(text), "cut at %zu", cut);
    }
}

Test(sha256, is_the_same_with_and_without_the_processors_instructions)
{
    if (!has_sha_instructions()) cr_skip("this processor has no SHA instructions");
    uint32_t seed = 1;
    std::vector<uint8_t> text(64 * 50);
    for (uint8_t &c : text) c = static_cast<uint8_t>((seed = seed * 1664525 + 1013904223) >> 24);
    for (size_t blocks = 0; blocks <= 50; blocks++) {
        uint32_t a[8] = {1, 2, 3, 4, 5, 6, 7, 8}, b[8] = {1, 2, 3, 4, 5, 6, 7, 8};
        sha256_blocks(a, text.data(), blocks);
        sha256_blocks_by_processor(b, text.data(), blocks);
        cr_expect(!memcmp(a, b, sizeof a), "%zu blocks", blocks);
    }
}

Test(hmac_sha256, of_rfc_4231)
{
    cr_expect(to_hex(hmac_sha256(std::string(20, '\x0b'), "Hi There")) ==
              "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
    cr_expect(to_hex(hmac_sha256("Jefe", "what do ya want for nothing?")) ==
              "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    cr_expect(to_hex(hmac_sha256(std::string(131, '\xaa'),
                                 "Test Using Larger Than Block-Size Key - Hash Key First")) ==
              "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

Test(hex, goes_both_ways_and_refuses_the_rest)
{
    std::string bytes;
    cr_assert(from_hex("00ffA5", bytes));
    cr_expect(bytes == std::string("\x00\xff\xa5", 3));
    cr_expect(to_hex(bytes.data(), bytes.size()) == "00ffa5");
    cr_expect(!from_hex("0", bytes));
    cr_expect(!from_hex("0g", bytes));
}
