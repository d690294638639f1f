// SPDX-License-Identifier: Apache-2.0
// Fat binaries: every way in which PTX is packed, the choice among several, and damage at every
// byte.
#include "softgpu/driver/image/fatbin.h"

#include <criterion/criterion.h>
#include <lz4.h>
#include <zstd.h>

#include <algorithm>
#include <cstring>
#include <random>

using namespace rgpu::softgpu::driver;
using Bytes = std::vector<uint8_t>;

namespace {

template <class T> void put(Bytes &b, size_t at, T value)
{
    memcpy(b.data() + at, &value, sizeof value);
}

enum Packing { plain, lz4, zstd };

// One entry as nvcc writes it: a header of 64 bytes, the payload padded to 8.
Bytes entry(uint16_t kind, uint32_t arch, const std::string &text, Packing packing)
{
    Bytes payload(text.begin(), text.end());
    if (packing == lz4) {
        payload.resize(LZ4_compressBound(text.size()));
        payload.resize(LZ4_compress_default(text.data(), reinterpret_cast<char *>(payload.data()),
                                            text.size(), payload.size()));
    } else if (packing == zstd) {
        payload.resize(ZSTD_compressBound(text.size()));
        payload.resize(ZSTD_compress(payload.data(), payload.size(), text.data(), text.size(), 3));
    }
    const size_t packed = payload.size();
    payload.resize((packed + 7) / 8 * 8);
    Bytes b(64 + payload.size());
    std::copy(payload.begin(), payload.end(), b.begin() + 64);
    put<uint16_t>(b, 0, kind);
    put<uint16_t>(b, 2, 0x101);
    put<uint32_t>(b, 4, 64);
    put<uint64_t>(b, 8, payload.size());
    put<uint32_t>(b, 16, packing == plain ? 0 : packed);
    put<uint32_t>(b, 28, arch);
    put<uint64_t>(b, 40, packing == lz4 ? 0x2000 : packing == zstd ? 0x8000 : 0);
    put<uint64_t>(b, 56, packing == plain ? 0 : text.size());
    return b;
}

Bytes fatbin(const std::vector<Bytes> &entries)
{
    Bytes b(16);
    for (const Bytes &e : entries) b.insert(b.end(), e.begin(), e.end());
    put<uint32_t>(b, 0, kFatbinMagic);
    put<uint16_t>(b, 4, 1);
    put<uint16_t>(b, 6, 16);
    put<uint64_t>(b, 8, b.size() - 16);
    return b;
}

std::string ptx(int arch)
{
    std::string text = ".version 9.0\n.target sm_" + std::to_string(arch) + "\n.address_size 64\n";
    for (int i = 0; i < 20; i++)
        text += ".visible .entry kernel" + std::to_string(i) + "() { ret; }\n";
    return text;
}

constexpr uint16_t kPtx = 1, kElf = 2;

}  // namespace

Test(driver_fatbin, unpacks_what_nvcc_packs)
{
    for (Packing packing : {plain, lz4, zstd}) {
        const Bytes b = fatbin({entry(kElf, 80,
                                      "\x7f"
                                      "ELF machine code",
                                      plain),
                                entry(kPtx, 80, ptx(80) + '\0', packing)});
        cr_expect_eq(fatbin_bytes(b.data()), b.size());
        auto best = best_ptx(b, 80);
        cr_assert(best.has_value(), "packing %d", packing);
        cr_expect(*best == ptx(80), "packing %d", packing);
    }
}

Test(driver_fatbin, a_small_file_cannot_ask_for_much_memory)
{
    for (Packing packing : {lz4, zstd}) {
        Bytes b = fatbin({entry(kPtx, 80, ptx(80), packing)});
        put<uint64_t>(b, 16 + 56, uint64_t{1} << 29);
        auto best = best_ptx(b, 80);
        cr_assert(!best.has_value());
        cr_expect(best.error().text.find("impossible unpacked size") != std::string::npos, "%s",
                  best.error().text.c_str());
    }
}

Test(driver_fatbin, takes_the_newest_ptx_that_is_not_too_new)
{
    const Bytes b = fatbin({entry(kPtx, 75, ptx(75), plain), entry(kPtx, 90, ptx(90), zstd),
                            entry(kPtx, 80, ptx(80), lz4)});
    cr_expect(*best_ptx(b, 75) == ptx(75));
    cr_expect(*best_ptx(b, 86) == ptx(80));
    cr_expect(*best_ptx(b, 90) == ptx(90));
    cr_expect(*best_ptx(b, 130) == ptx(90));
    cr_expect(!best_ptx(b, 70));
}

Test(driver_fatbin, says_what_is_there_when_nothing_fits)
{
    const Bytes b = fatbin({entry(kElf, 80, "code", plain), entry(kPtx, 90, ptx(90), plain)});
    auto best = best_ptx(b, 80);
    cr_assert(!best);
    cr_expect_eq(best.error().kind, rgpu::ErrorKind::unsupported);
    cr_expect(best.error().text.find("machine code for sm_80, PTX for compute_90") !=
                  std::string::npos,
              "%s", best.error().text.c_str());
}

// Each damaged copy lies in a buffer of its own size, so that a sanitizer sees any step beyond.
Test(driver_fatbin, survives_damage_at_every_byte)
{
    std::mt19937 random(1);
    int refused = 0;
    for (Packing packing : {plain, lz4, zstd}) {
        const Bytes good =
            fatbin({entry(kPtx, 80, ptx(80), packing), entry(kElf, 80, "code", plain)});
        for (size_t at = 0; at < good.size(); at++)
            for (int value : {0, 0xff, 0x80, static_cast<int>(random() & 0xff)}) {
                Bytes bad = good;
                bad[at] = static_cast<uint8_t>(value);
                refused += !best_ptx(bad, 80);
            }
    }
    cr_expect_gt(refused, 0);
}

Test(driver_fatbin, refuses_what_is_cut_short)
{
    const Bytes good = fatbin({entry(kPtx, 80, ptx(80), zstd)});
    for (size_t size = 0; size < good.size(); size++)
        cr_expect(!best_ptx(std::span(good).first(size), 80), "cut to %zu bytes", size);
}

Test(driver_fatbin, is_found_wherever_it_lies_in_a_file)
{
    const Bytes first = fatbin({entry(kPtx, 80, ptx(80), zstd)}),
                second = fatbin({entry(kPtx, 75, ptx(75), plain)});
    Bytes file(37, 0xED);
    file.insert(file.end(), first.begin(), first.end());
    // The mark alone is no fat binary, nor is one that says it goes on past the end.
    for (int i = 0; i < 3; i++) file.insert(file.end(), first.begin(), first.begin() + 4);
    file.insert(file.end(), second.begin(), second.end());
    file.insert(file.end(), first.begin(), first.begin() + 40);
    const auto found = find_fatbins(file);
    cr_assert_eq(found.size(), 2u);
    cr_assert(*best_ptx(found[0], 90) == ptx(80));
    cr_assert(*best_ptx(found[1], 90) == ptx(75));
    // However short the file, and whatever the sizes in it say.
    for (size_t n = 0; n < file.size(); n++) {
        const Bytes cut(file.begin(), file.begin() + n);
        for (auto f : find_fatbins(cut)) cr_assert(f.data() + f.size() <= cut.data() + cut.size());
    }
    std::mt19937 random(1);
    for (int i = 0; i < 2000; i++) {
        Bytes wrong = file;
        for (int k = 0; k < 4; k++) wrong[random() % 60 + (k % 2 ? 37 : 0)] = uint8_t(random());
        for (auto f : find_fatbins(wrong)) (void)best_ptx(f, 90);
    }
}
