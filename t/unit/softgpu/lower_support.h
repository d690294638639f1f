// SPDX-License-Identifier: Apache-2.0
// Runs PTX instructions on many inputs and compares with what the host computes.
//
// A group of operations shares its operands' types. They become one kernel: thread i loads the i-th
// tuple of inputs, applies each operation to it and stores each result.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include <criterion/criterion.h>

#include "softgpu/compile/compile.h"
#include "softgpu/compiler.h"
#include "softgpu/engine.h"

namespace lower_test {

using namespace rgpu::softgpu;

// Links the back end into the test.
[[gnu::used]] inline rgpu_compile_ir_function *const backend = &rgpu_compile_ir;

inline float f32(uint64_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits)); }
inline double f64(uint64_t bits) { return std::bit_cast<double>(bits); }
inline uint64_t bits(float f) { return std::bit_cast<uint32_t>(f); }
inline uint64_t bits(double d) { return std::bit_cast<uint64_t>(d); }
inline int32_t s32(uint64_t v) { return static_cast<int32_t>(v); }
inline uint32_t u32(uint64_t v) { return static_cast<uint32_t>(v); }
inline int64_t s64(uint64_t v) { return static_cast<int64_t>(v); }
inline int16_t s16(uint64_t v) { return static_cast<int16_t>(v); }
inline uint16_t u16(uint64_t v) { return static_cast<uint16_t>(v); }

inline std::shared_ptr<const PtxModule> parse(const std::string &ptx)
{
    auto m = PtxModule::parse(ptx);
    cr_assert(m.has_value(), "%s\n%s", m ? "" : m.error().text.c_str(), ptx.c_str());
    return *m;
}

inline const std::string kHead = ".version 8.7\n.target sm_90a\n.address_size 64\n";

struct Shape {
    Dim3 grid{1, 1, 1}, block{1, 1, 1};
    uint32_t dynamic_shared = 0;
};

// Memory for a module's variables.
struct Globals {
    explicit Globals(const PtxModule &m)
    {
        for (const GlobalVariable &g : m.globals()) {
            auto &bytes = memory[g.name];
            bytes.assign((g.size + 15) / 8, 0);
            memcpy(bytes.data(), g.init.data(), std::min(g.init.size(), g.size));
        }
        for (const GlobalVariable &g : m.globals())
            for (const AddressInit &a : g.addresses) {
                uint64_t v = (address(a.symbol) + static_cast<uint64_t>(a.addend)) >> a.shift;
                memcpy(reinterpret_cast<char *>(memory[g.name].data()) + a.offset, &v, a.size);
            }
    }
    uint64_t address(std::string_view name)
    {
        auto found = memory.find(std::string(name));
        return found == memory.end() ? 0 : reinterpret_cast<uint64_t>(found->second.data());
    }
    std::map<std::string, std::vector<uint64_t>> memory;
};

// What functions that kernels call through their addresses take: counted by name.
struct Functions {
    std::mutex mutex;
    std::map<std::string, unsigned> made;
    std::map<std::string, size_t> bytes;  // of their objects
};

// Compiles, loads and runs one kernel whose parameters are 64-bit values.
inline std::optional<Fault> launch(const PtxModule &m, Globals &globals, const std::string &kernel,
                                   const std::vector<uint64_t> &params, Shape shape,
                                   std::string *printed = nullptr, bool *per_thread = nullptr,
                                   Functions *functions = nullptr)
{
    auto compiled = m.compile(kernel);
    cr_assert(compiled.has_value(), "%s", compiled ? "" : compiled.error().text.c_str());
    if (per_thread) *per_thread = compiled->per_thread;
    const SymbolResolver resolve = [&](std::string_view s) {
        return s.starts_with("g.") ? globals.address(s.substr(2)) : 0;
    };
    const auto late = [&](uint64_t address,
                          uint64_t signature) -> rgpu::Result<std::shared_ptr<const LoadedKernel>> {
        const std::string_view name = m.find_function(address, signature);
        if (name.empty()) return rgpu::Error{rgpu::ErrorKind::invalid, "no such function"};
        auto code = m.compile_function(kernel, name);
        if (functions) {
            std::lock_guard lock(functions->mutex);
            ++functions->made[std::string(name)];
            if (code) functions->bytes[std::string(name)] = code->object.size();
        }
        if (!code) return std::move(code).error();
        return LoadedKernel::load(*code, resolve);
    };
    auto loaded = LoadedKernel::load(*compiled, resolve, late);
    cr_assert(loaded.has_value(), "%s", loaded ? "" : loaded.error().text.c_str());
    Launch l;
    l.grid = shape.grid;
    l.block = shape.block;
    l.dynamic_shared = shape.dynamic_shared;
    for (const Kernel &k : m.kernels())
        if (k.name == kernel) l.shared_bytes = k.static_shared + shape.dynamic_shared;
    l.params = params.data();
    l.print = [&](std::string_view s) {
        if (printed) printed->append(s);
    };
    return run(**loaded, l);
}

// The same for a text with one kernel "k", which must end well.
inline void launch(const std::string &ptx, const std::vector<uint64_t> &params, Shape shape,
                   bool *per_thread = nullptr)
{
    auto m = parse(ptx);
    Globals globals(*m);
    auto fault = launch(*m, globals, "k", params, shape, nullptr, per_thread);
    cr_assert(!fault, "%s", fault ? fault->text.c_str() : "");
}

template <class T> uint64_t address(T &container)
{
    return reinterpret_cast<uint64_t>(container.data());
}

// %d is the result; %a, %b, %c, %e the inputs.
using Expected = std::function<uint64_t(uint64_t, uint64_t, uint64_t, uint64_t)>;
struct Operation {
    std::string text;
    Expected expected;
};

struct Kind {
    const char *reg, *memory;
    std::vector<uint64_t> edges;
    unsigned bytes;
};

inline const Kind &kind(std::string_view name)
{
    static const std::map<std::string_view, Kind> kinds = [] {
        std::map<std::string_view, Kind> k;
        k["u16"] = {".b16",
                    "u16",
                    {0, 1, 2, 3, 15, 16, 127, 128, 255, 256, 32767, 32768, 65535, 0x1234, 0xABCD},
                    2};
        k["u32"] = {".b32",
                    "u32",
                    {0,          1,          2,          3,          5,          7,
                     8,          15,         16,         24,         31,         32,
                     33,         63,         64,         127,        128,        255,
                     256,        65535,      65536,      0x7FFFFFFF, 0x80000000, 0x80000001,
                     0xFFFFFFFF, 0xFFFFFFFE, 0xDEADBEEF, 0x12345678, 0x80FF7F01},
                    4};
        k["shift"] = {
            ".b32",
            "u32",
            {0, 1, 2, 7, 8, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 255, 256, 0xFFFFFFFF},
            4};
        k["u64"] = {".b64",
                    "u64",
                    {0, 1, 2, 7, 31, 32, 63, 64, 0xFFFFFFFF, 0x100000000, 0x7FFFFFFFFFFFFFFF,
                     0x8000000000000000, 0xFFFFFFFFFFFFFFFF, 0xFFFFFFFFFFFFFFFE, 0x123456789ABCDEF0,
                     0xDEADBEEF00000001, 9007199254740993, 0xFFFFFFFFFFFFFC00, 0x8000000000000401},
                    8};
        std::vector<uint64_t> f;
        for (float x : {0.0f,
                        -0.0f,
                        1.0f,
                        -1.0f,
                        0.5f,
                        -0.5f,
                        1.5f,
                        2.5f,
                        -2.5f,
                        3.3333333f,
                        1e10f,
                        -1e10f,
                        3.4028235e38f,
                        1.17549435e-38f,
                        1e-45f,
                        -1e-40f,
                        5.9e-39f,
                        16777216.0f,
                        16777217.0f,
                        2147483648.0f,
                        -2147483648.0f,
                        4294967040.0f,
                        9.2233720e18f,
                        127.5f,
                        128.5f,
                        255.5f,
                        -128.5f,
                        65504.0f,
                        65520.0f,
                        6.1e-5f,
                        5.96e-8f,
                        2.98e-8f,
                        448.0f,
                        465.0f,
                        57344.0f,
                        0.33333334f,
                        0.1f,
                        std::numeric_limits<float>::infinity(),
                        -std::numeric_limits<float>::infinity(),
                        std::numeric_limits<float>::quiet_NaN()})
            f.push_back(bits(x));
        k["f32"] = {".f32", "f32", f, 4};
        std::vector<uint64_t> d;
        for (double x : {0.0,
                         -0.0,
                         1.0,
                         -1.0,
                         0.5,
                         1.5,
                         2.5,
                         -2.5,
                         1.0 / 3,
                         1e300,
                         -1e300,
                         1e-300,
                         5e-324,
                         -1e-310,
                         1.7976931348623157e308,
                         2.2250738585072014e-308,
                         2147483647.5,
                         -2147483648.5,
                         4294967295.5,
                         9.3e18,
                         -9.3e18,
                         1.9e19,
                         16777217.0,
                         3.4028235677973366e38,
                         1e-45,
                         7e-46,
                         65519.99,
                         65520.0,
                         1.00048828125,
                         1.000488281250001,
                         std::numeric_limits<double>::infinity(),
                         -std::numeric_limits<double>::infinity(),
                         std::numeric_limits<double>::quiet_NaN()})
            d.push_back(bits(x));
        k["f64"] = {".f64", "f64", d, 8};
        k["f16"] = {".b16",
                    "u16",
                    {0,      0x8000, 0x3C00, 0xBC00, 0x3800, 0x4248, 0x7BFF,
                     0xFBFF, 0x7C00, 0xFC00, 0x7E00, 0x0001, 0x8001, 0x03FF,
                     0x0400, 0x3555, 0x2E66, 0x1400, 0x5640, 0xD640, 0x6400},
                    2};
        k["bf16"] = {".b16",
                     "u16",
                     {0, 0x8000, 0x3F80, 0xBF80, 0x3F00, 0x4049, 0x7F7F, 0xFF7F, 0x7F80, 0xFF80,
                      0x7FC0, 0x0001, 0x8001, 0x007F, 0x0080, 0x3EAB, 0x3DCD, 0x4300, 0xC300},
                     2};
        k["pred"] = {".pred", "u32", {0, 1}, 4};
        return k;
    }();
    auto found = kinds.find(name);
    cr_assert(found != kinds.end(), "no kind %s", std::string(name).c_str());
    return found->second;
}

inline bool same(std::string_view k, uint64_t got, uint64_t want)
{
    if (got == want) return true;
    if (k == "f32") return std::isnan(f32(got)) && std::isnan(f32(want));
    if (k == "f64") return std::isnan(f64(got)) && std::isnan(f64(want));
    if (k == "f16") return (got & 0x7FFF) > 0x7C00 && (want & 0x7FFF) > 0x7C00;
    if (k == "bf16") return (got & 0x7FFF) > 0x7F80 && (want & 0x7FFF) > 0x7F80;
    return false;
}

inline uint64_t random_bits()
{
    static uint64_t state = 88172645463325252u;
    state ^= state << 13;
    state ^= state >> 7;
    return state ^= state << 17;
}

// types: of %d and then of the inputs, as in "u32 u32 shift".
// no_nan: inputs that are NaN are left out, where a result holds several values of which one would
// be NaN.
inline void check(const std::string &types, const std::vector<Operation> &operations,
                  bool no_nan = false)
{
    std::vector<std::string> names;
    for (size_t at = 0; at < types.size();) {
        size_t end = std::min(types.find(' ', at), types.size());
        names.push_back(types.substr(at, end - at));
        at = end + 1;
    }
    const Kind &result = kind(names[0]);
    size_t inputs = names.size() - 1;

    // All tuples of edge values (thinned where there are too many), and random ones.
    std::vector<std::vector<uint64_t>> tuples{{}};
    for (size_t i = 1; i <= inputs; ++i) {
        std::vector<std::vector<uint64_t>> longer;
        for (const auto &t : tuples)
            for (uint64_t e : kind(names[i]).edges) {
                if (tuples.size() > 1500 && random_bits() % 8) continue;
                longer.push_back(t);
                longer.back().push_back(e);
            }
        tuples = std::move(longer);
    }
    for (int n = 0; n < 500; ++n) {
        std::vector<uint64_t> t;
        for (size_t i = 1; i <= inputs; ++i) {
            const Kind &k = kind(names[i]);
            uint64_t mask = names[i] == "pred" ? 1
                            : k.bytes == 8     ? ~uint64_t{0}
                                               : (uint64_t{1} << (8 * k.bytes)) - 1;
            t.push_back(names[i] == "shift" ? random_bits() % 70 : random_bits() & mask);
        }
        tuples.push_back(t);
    }

    if (no_nan)
        std::erase_if(tuples, [&](const std::vector<uint64_t> &t) {
            for (size_t i = 0; i < inputs; ++i)
                if (names[i + 1] == "f32" && std::isnan(f32(t[i]))) return true;
            return false;
        });

    size_t n = tuples.size();
    std::vector<uint64_t> in(n * 4), out(n * operations.size());
    for (size_t i = 0; i < n; ++i)
        for (size_t j = 0; j < inputs; ++j) in[i * 4 + j] = tuples[i][j];

    static const char *letters[] = {"%a", "%b", "%c", "%e"};
    std::string ptx =
        kHead + ".visible .entry k(.param .u64 in, .param .u64 out, .param .u64 n)\n{\n"
                "  .reg .b64 %in<9>; .reg .b32 %i<4>; .reg .pred %past; .reg .b32 %truth;\n"
                "  ld.param.u64 %in0, [in]; ld.param.u64 %in1, [out]; ld.param.u64 %in2, [n];\n"
                "  mov.u32 %i0, %ctaid.x; mov.u32 %i1, %ntid.x; mov.u32 %i2, %tid.x;\n"
                "  mad.lo.u32 %i3, %i0, %i1, %i2; cvt.u64.u32 %in3, %i3;\n"
                "  setp.ge.u64 %past, %in3, %in2; @%past ret;\n"
                "  shl.b64 %in4, %in3, 5; add.u64 %in5, %in0, %in4;\n";
    for (size_t j = 0; j < inputs; ++j) {
        const Kind &k = kind(names[j + 1]);
        std::string letter = letters[j];
        ptx += std::string("  .reg ") + k.reg + " " + letter + ";\n";
        if (names[j + 1] == "pred")
            ptx += "  ld.global.u32 %truth, [%in5+" + std::to_string(8 * j) + "]; setp.ne.u32 " +
                   letter + ", %truth, 0;\n";
        else
            ptx += std::string("  ld.global.") + k.memory + " " + letter + ", [%in5+" +
                   std::to_string(8 * j) + "];\n";
    }
    ptx += "  shl.b64 %in6, %in3, 3; add.u64 %in7, %in1, %in6; shl.b64 %in8, %in2, 3;\n";
    for (const Operation &o : operations) {
        ptx += std::string("  { .reg ") + result.reg + " %d;\n    " + o.text + "\n";
        if (names[0] == "pred")
            ptx += "    selp.u32 %truth, 1, 0, %d; st.global.u32 [%in7], %truth; }\n";
        else
            ptx += std::string("    st.global.") + result.memory + " [%in7], %d; }\n";
        ptx += "  add.u64 %in7, %in7, %in8;\n";
    }
    ptx += "  ret;\n}\n";

    launch(ptx, {address(in), address(out), n},
           {{static_cast<uint32_t>((n + 255) / 256), 1, 1}, {256, 1, 1}});
    unsigned wrong = 0;
    for (size_t o = 0; o < operations.size(); ++o)
        for (size_t i = 0; i < n; ++i) {
            const uint64_t *t = &in[i * 4];
            uint64_t want = operations[o].expected(t[0], t[1], t[2], t[3]), got = out[o * n + i];
            if (names[0] == "u32" || names[0] == "f32") want &= 0xFFFFFFFF;
            if (result.bytes == 2) want &= 0xFFFF;
            if (same(names[0], got, want) || ++wrong > 12) continue;
            cr_expect(false, "%s  a=%#lx b=%#lx c=%#lx e=%#lx: got %#lx, want %#lx",
                      operations[o].text.c_str(), t[0], t[1], t[2], t[3], got, want);
        }
    cr_assert_eq(wrong, 0, "%u results are wrong", wrong);
}

}  // namespace lower_test

#define EXPECT_OF(expression) \
    [](uint64_t a, uint64_t b, uint64_t c, uint64_t e) -> uint64_t { \
        (void)a; \
        (void)b; \
        (void)c; \
        (void)e; \
        return static_cast<uint64_t>(expression); \
    }
