// SPDX-License-Identifier: Apache-2.0
// Damaged and shuffled PTX and fat binaries: whatever comes in, the parser, the linker, lowering
// and the reader of fat binaries answer with a result or an error. Deterministic; RGPU_FUZZ=SECONDS
// goes on from another seed for as long (under make check-asan).
#include <lz4.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <random>

#include "lower_support.h"
#include "softgpu/driver/image/fatbin.h"
#include "softgpu/lower/module.h"

using namespace lower_test;

namespace {

// One line of each kind, so that pieces of any can meet pieces of any other.
const char *const kLines[] = {
    "mov.u32 %r1, %tid.x;",
    "mov.b64 %rd1, {%r1, %r2};",
    "mov.b64 {%r3, _}, %rd2;",
    "add.cc.u32 %r1, %r2, %r3;",
    "addc.u32 %r4, 0, 0;",
    "mad.wide.s32 %rd1, %r1, 4, %rd2;",
    "mul.hi.u64 %rd3, %rd1, -7;",
    "div.s32 %r1, %r2, %r3;",
    "bfi.b32 %r1, %r2, %r3, 8, 4;",
    "prmt.b32 %r1, %r2, %r3, 0x5410;",
    "lop3.b32 %r1, %r2, %r3, %r4, 0xE8;",
    "shf.l.wrap.b32 %r1, %r2, %r3, 7;",
    "dp4a.s32.u32 %r1, %r2, %r3, %r4;",
    "vadd4.s32.s32.s32.sat %r1, %r2, %r3, %r4;",
    "vmad.u32.u32.u32 %r1, -%r2.h0, %r3.b1, %r4;",
    "fma.rn.ftz.f32 %f1, %f2, %f3, 0f3F800000;",
    "add.rz.f64 %fd1, %fd2, 1.5;",
    "sqrt.approx.f32 %f1, %f2;",
    "fma.rn.f16x2 %r1, %r2, %r3, %r4;",
    "cvt.rn.satfinite.e4m3x2.f32 %h1, %f1, %f2;",
    "cvt.rzi.s32.f32 %r1, %f1;",
    "cvt.rn.bf16x2.f32 %r1, %f1, %f2;",
    "setp.lt.and.f32 %p1|%p2, %f1, %f2, %p3;",
    "set.gt.u32.s32 %r1, %r2, %r3;",
    "selp.b64 %rd1, %rd2, %rd3, %p1;",
    "slct.f32.s32 %f1, %f2, %f3, %r1;",
    "ld.global.v4.f32 {%f1, %f2, %f3, %f4}, [%rd1+16];",
    "ld.param.u64 %rd1, [k_param_0];",
    "st.shared.u32 [room+4], %r1;",
    "ld.const.b8 %h1, [table+3];",
    "st.local.v2.b64 [here], {%rd1, %rd2};",
    "cvta.to.global.u64 %rd1, %rd2;",
    "atom.global.add.u32 %r1, [%rd1], 1;",
    "atom.shared.cas.b64 %rd1, [%r1], %rd2, %rd3;",
    "red.global.add.f32 [%rd1], %f1;",
    "bar.sync 0;",
    "barrier.sync %r1, 64;",
    "shfl.sync.bfly.b32 %r1|%p1, %r2, 1, 31, -1;",
    "vote.sync.ballot.b32 %r1, %p1, -1;",
    "match.any.sync.b32 %r1, %r2, -1;",
    "redux.sync.add.s32 %r1, %r2, -1;",
    "activemask.b32 %r1;",
    "cp.async.ca.shared.global [room], [%rd1], 16;",
    "cp.async.wait_group 0;",
    "mbarrier.init.shared.b64 [room], 32;",
    "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r1, %r2, %r3, %r4}, [room];",
    "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%f1, %f2, %f3, %f4}, {%r1, %r2, %r3, "
    "%r4}, {%r5, %r6}, {%f1, %f2, %f3, %f4};",
    "tex.2d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%rd1, {%f5, %f6}];",
    "@%p1 bra $done;",
    "@!%p2 bra $done;",
    "brx.idx %r1, targets;",
    "{ .param .b32 a; .param .b32 b; st.param.b32 [a], %r1; call (b), helper, (a); ld.param.b32 "
    "%r1, [b]; }",
    "{ .param .b32 a; .param .b32 b; st.param.b32 [a], %r1; call (b), %rd1, (a), prototype; "
    "ld.param.b32 %r1, [b]; }",
    "nanosleep.u32 100;",
    "trap;",
    "exit;",
    "ret;",
    "isspacep.shared %p1, %rd1;",
    "mapa.u64 %rd1, %rd2, 0;",
    "fns.b32 %r1, %r2, 0, 1;"};

const std::string kModuleHead = kHead + R"(
.visible .global .align 8 .u64 pointers[3] = {table, generic(table)+4, helper};
.const .align 4 .b8 table[8] = {1, 2, 0xFF(table), 4};
.shared .align 16 .b8 room[1024];
.func (.param .b32 result) helper(.param .b32 x)
{ .reg .b32 %a; ld.param.b32 %a, [x]; add.s32 %a, %a, 1; st.param.b32 [result], %a; ret; }
)";
const std::string kKernelHead =
    R"(.visible .entry k(.param .u64 k_param_0, .param .align 8 .b8 k_param_1[24])
.maxntid 128, 1, 1 .maxnreg 64
{
.reg .pred %p<4>; .reg .b16 %h<4>; .reg .b32 %r<8>; .reg .b64 %rd<6>;
.reg .f32 %f<8>; .reg .f64 %fd<4>;
.local .align 16 .b8 here[32];
targets: .branchtargets $done, $other;
prototype: .callprototype (.param .b32 _) _ (.param .b32 _);
)";

class Fuzz {
public:
    explicit Fuzz(uint64_t seed) : random_(seed) {}

    size_t below(size_t n) { return random_() % n; }

    std::string module()
    {
        std::string text = kModuleHead + kKernelHead;
        for (size_t i = 0, n = 1 + below(12); i < n; i++)
            text += one_of(kLines) + std::string("\n");
        return text + "$other:\n" + one_of(kLines) + "\n$done: ret;\n}\n";
    }

    // Words change places with words of any other line, numbers become edges, and now and then a
    // byte is no longer what it was.
    std::string damaged(std::string text)
    {
        for (size_t i = 0, n = below(5); i < n; i++) {
            const auto [at, size] = word(text);
            switch (below(6)) {
            case 0: text.erase(at, size); break;
            case 1: text.insert(at, text.substr(at, size) + " "); break;
            case 2:
            case 3: {
                const std::string other = one_of(kLines);
                const auto [from, many] = word(other);
                text.replace(at, size, other.substr(from, many));
                break;
            }
            case 4: {
                static const char *const edges[] = {"0",
                                                    "-1",
                                                    "4294967295",
                                                    "18446744073709551615",
                                                    "99999999999999999999999",
                                                    "0x",
                                                    "08",
                                                    "0f7F800000",
                                                    "1e999",
                                                    "WARP_SZ",
                                                    "%nsmid",
                                                    "_",
                                                    "{",
                                                    "}",
                                                    "[",
                                                    "]"};
                text.replace(at, size, one_of(edges));
                break;
            }
            default:
                text[below(text.size())] = static_cast<char>(
                    below(4) ? "{}()[];,:.%@!+-<>|0x\"/*_ \n"[below(27)] : below(256));
                break;
            }
        }
        if (!below(20)) text.resize(below(text.size()));
        return text;
    }

    void flip(std::vector<uint8_t> &bytes)
    {
        for (size_t i = 0, n = 1 + below(4); i < n; i++) {
            // Mostly in the headers, which decide about all else.
            const size_t at = below(below(3) ? std::min<size_t>(bytes.size(), 160) : bytes.size());
            bytes[at] = below(2) ? static_cast<uint8_t>(below(256))
                                 : bytes[at] ^ static_cast<uint8_t>(1u << below(8));
        }
        if (!below(5)) bytes.resize(below(bytes.size()));
    }

private:
    template <size_t n> const char *one_of(const char *const (&list)[n]) { return list[below(n)]; }
    std::pair<size_t, size_t> word(const std::string &text)
    {
        size_t at = below(text.size()), end = at;
        auto part = [](char c) {
            return isalnum(static_cast<unsigned char>(c)) || strchr("%_$.:", c);
        };
        while (at && part(text[at - 1])) at--;
        while (end < text.size() && part(text[end])) end++;
        return {at, std::max<size_t>(end - at, 1)};
    }

    std::mt19937_64 random_;
};

// One round of each seed, or as many as there is time for.
template <class Round> void rounds(unsigned count, Round round)
{
    const char *seconds = getenv("RGPU_FUZZ");
    const auto end = std::chrono::steady_clock::now() +
                     std::chrono::seconds(seconds ? atoi(seconds) : 0);
    for (unsigned i = 0; i < count || std::chrono::steady_clock::now() < end; i++) round(i);
}

std::vector<uint8_t> fatbin_of(const std::string &text, bool packed)
{
    std::vector<uint8_t> bytes(80 + LZ4_compressBound(static_cast<int>(text.size())));
    auto put = [&](size_t at, auto value) { memcpy(bytes.data() + at, &value, sizeof value); };
    uint32_t size = static_cast<uint32_t>(text.size());
    if (packed)
        size = LZ4_compress_default(text.data(), reinterpret_cast<char *>(bytes.data() + 80),
                                    static_cast<int>(size), static_cast<int>(bytes.size() - 80));
    else
        memcpy(bytes.data() + 80, text.data(), size);
    bytes.resize(80 + size);
    put(0, rgpu::softgpu::driver::kFatbinMagic), put(4, uint16_t{1}), put(6, uint16_t{16}),
        put(8, uint64_t{64} + size);
    put(16, uint16_t{1}), put(18, uint16_t{0x101}), put(20, uint32_t{64}), put(24, uint64_t{size});
    put(32, packed ? size : 0), put(44, uint32_t{80}), put(56, uint64_t{packed ? 0x2000u : 0u}),
        put(72, uint64_t{text.size()});
    return bytes;
}

}  // namespace

// What the pieces are taken from is all known: damage is what is refused.
Test(ptx_fuzz, what_is_whole_is_lowered)
{
    for (const char *line : kLines) {
        const std::string text = kModuleHead + kKernelHead + line +
                                 "\n$other: exit;\n$done: ret;\n}\n";
        auto m = lower::Module::parse(text);
        cr_assert(m.has_value(), "%s: %s", line, m ? "" : m.error().text.c_str());
        CompiledKernel facts;
        const auto ir = (*m)->ir((*m)->plan(*(*m)->find_function("k"), nullptr), facts);
        cr_assert(ir.has_value(), "%s: %s", line, ir ? "" : ir.error().text.c_str());
    }
}

Test(ptx_fuzz, shuffled_ptx_is_lowered_or_refused, .timeout = 3600)
{
    unsigned good = 0, refused = 0;
    rounds(4000, [&](unsigned seed) {
        Fuzz fuzz(seed);
        const std::string text = fuzz.damaged(fuzz.module());
        auto m = lower::Module::parse(text);
        if (!m) {
            refused++;
            cr_assert(!m.error().text.empty());
            return;
        }
        for (const Kernel &k : (*m)->kernels()) {
            CompiledKernel facts;
            const auto ir = (*m)->ir((*m)->plan(*(*m)->find_function(k.name), nullptr), facts);
            good += ir.has_value();
            // What was loaded is lowered, or refused with a reason; a sample of it goes through
            // LLVM.
            if (!ir)
                cr_assert(!ir.error().text.empty());
            else if (seed % 40 == 0) {
                const auto object = lower::compile_ir(*ir);
                cr_assert(object.has_value(), "seed %u: %s\n%s", seed,
                          object ? "" : object.error().text.c_str(), text.c_str());
            }
        }
        (void)PtxModule::limit_registers(text, 32);
    });
    // Not all is refused at the door, nor nothing.
    cr_expect_gt(good, 500u, "%u", good);
    cr_expect_gt(refused, 500u, "%u", refused);
}

Test(ptx_fuzz, shuffled_modules_are_linked_or_refused, .timeout = 3600)
{
    rounds(500, [&](unsigned seed) {
        Fuzz fuzz(seed + 1000000);
        std::vector<std::string> modules;
        for (size_t i = 0, n = 1 + fuzz.below(3); i < n; i++)
            modules.push_back(fuzz.damaged(fuzz.module()));
        auto linked = PtxModule::link(modules);
        if (linked) (void)PtxModule::parse(*linked);
    });
}

Test(ptx_fuzz, damaged_fat_binaries_are_read_or_refused, .timeout = 3600)
{
    using namespace rgpu::softgpu::driver;
    rounds(4000, [&](unsigned seed) {
        Fuzz fuzz(seed + 2000000);
        const std::string text = fuzz.module();
        std::vector<uint8_t> bytes = fatbin_of(text, seed % 2);
        auto whole = best_ptx(bytes, 80);
        cr_assert(whole && *whole == text);
        fuzz.flip(bytes);
        (void)best_ptx(bytes, 80);
        for (std::span<const uint8_t> found : find_fatbins(bytes)) (void)read_fatbin(found);
    });
}
