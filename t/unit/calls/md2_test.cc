// SPDX-License-Identifier: Apache-2.0
// MD2's test vectors of RFC 1319 (A.5), and HMAC-MD2's definition written out by hand.
#include "calls/md2.h"

#include <criterion/criterion.h>

#include <cstdio>
#include <cstring>
#include <string>

using namespace rgpu::calls;

static std::string hex(const uint8_t digest[16])
{
    std::string s;
    char two[3];
    for (int i = 0; i < 16; i++) {
        snprintf(two, sizeof two, "%02x", digest[i]);
        s += two;
    }
    return s;
}

static std::string md2(const std::string &text)
{
    Md2 m;
    uint8_t digest[16];
    m.add(text.data(), text.size());
    m.finish(digest);
    return hex(digest);
}

Test(md2, gives_the_digests_of_rfc_1319)
{
    const struct {
        const char *text, *digest;
    } vectors[] = {
        {"", "8350e5a3e24c153df2275c9f80692773"},
        {"a", "32ec01ec4a6dac72c0ab96fb34c0b5d1"},
        {"abc", "da853b0d3f88d99b30283a69e6ded6bb"},
        {"message digest", "ab4f496bfb2a530b219ff33031fe06b0"},
        {"abcdefghijklmnopqrstuvwxyz", "4e8ddff3650292ab5a4108c3aa47940b"},
        {"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789",
         "da33def2a42df13975352846c30338cd"},
        {"12345678901234567890123456789012345678901234567890123456789012345678901234567890",
         "d5976f79d83d3a0dc9806c3c66f3efd8"},
    };
    for (const auto &v : vectors) cr_expect(md2(v.text) == v.digest, "of \"%s\"", v.text);
}

Test(md2, does_not_depend_on_how_the_text_is_cut)
{
    const std::string text = "12345678901234567890123456789012345678901234567890";
    for (size_t cut = 0; cut <= text.size(); cut++) {
        Md2 m;
        uint8_t digest[16];
        m.add(text.data(), cut);
        m.add(text.data() + cut, text.size() - cut);
        m.finish(digest);
        cr_expect(hex(digest) == md2(text), "cut at %zu", cut);
    }
}

Test(md2, hmac_is_the_nested_hash_of_rfc_2104)
{
    const std::string key = "a key of ours", text = "what is signed";
    HmacMd2 h(key.data(), key.size());
    h.add(text.data(), text.size());
    uint8_t digest[16];
    h.finish(digest);

    std::string inner(16, 0x36), outer(16, 0x5c);
    for (size_t i = 0; i < key.size(); i++) {
        inner[i] ^= key[i];
        outer[i] ^= key[i];
    }
    Md2 first;
    uint8_t middle[16];
    first.add(inner.data(), 16);
    first.add(text.data(), text.size());
    first.finish(middle);
    Md2 second;
    uint8_t expected[16];
    second.add(outer.data(), 16);
    second.add(middle, 16);
    second.finish(expected);
    cr_expect(hex(digest) == hex(expected));
}
