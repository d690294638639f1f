// SPDX-License-Identifier: Apache-2.0
// A fixed table, so that nothing in the program that loaded us can take a name's place.
#include "softgpu/exec/symbols.h"

#include <cmath>
#include <cstring>
#include <unordered_map>

#include "softgpu/abi.h"

// Conversions that LLVM calls where the CPU has none: in libgcc, declared nowhere.
extern "C" {
float __extendhfsf2(_Float16);
_Float16 __truncsfhf2(float);
_Float16 __truncdfhf2(double);
__int128 __divti3(__int128, __int128);
__int128 __modti3(__int128, __int128);
unsigned __int128 __udivti3(unsigned __int128, unsigned __int128);
unsigned __int128 __umodti3(unsigned __int128, unsigned __int128);
__int128 __multi3(__int128, __int128);
}

namespace rgpu::softgpu::exec {

namespace {

template <class F> uint64_t address(F *function) { return reinterpret_cast<uint64_t>(function); }

// bfloat16 travels in the low half of an SSE register, as a float's bits do.
float bf16_result(uint16_t bits)
{
    uint32_t low = bits;
    float carrier;
    memcpy(&carrier, &low, sizeof carrier);
    return carrier;
}

uint16_t round_to_bf16(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if (std::isnan(value)) return static_cast<uint16_t>(bits >> 16 | 0x40);
    return static_cast<uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

float truncsfbf2(float value) { return bf16_result(round_to_bf16(value)); }

// By way of float rounded to odd, so that nothing is rounded twice.
float truncdfbf2(double value)
{
    auto narrow = static_cast<float>(value);
    uint32_t bits;
    memcpy(&bits, &narrow, sizeof bits);
    if (std::isfinite(value) && std::isfinite(narrow) && static_cast<double>(narrow) != value) {
        if (std::fabs(static_cast<double>(narrow)) > std::fabs(value)) --bits;
        bits |= 1;
        memcpy(&narrow, &bits, sizeof narrow);
    }
    return truncsfbf2(narrow);
}

using Table = std::unordered_map<std::string_view, uint64_t>;

void add_runtime(Table &t)
{
#define ADD(name) t[#name] = address(&::name)
    ADD(rt_bar_sync);
    ADD(rt_bar_arrive);
    ADD(rt_bar_red);
    ADD(rt_bar_warp_sync);
    ADD(rt_shfl);
    ADD(rt_vote);
    ADD(rt_match_any);
    ADD(rt_match_all);
    ADD(rt_redux);
    ADD(rt_activemask);
    ADD(rt_enter);
    ADD(rt_leave);
    ADD(rt_loop);
    ADD(rt_unloop);
    ADD(rt_elect);
    ADD(rt_matrix);
    ADD(rt_wmma_load);
    ADD(rt_wmma_store);
    ADD(rt_run_warps);
    ADD(rt_function);
    ADD(rt_yield);
    ADD(rt_nanosleep);
    ADD(rt_vprintf);
    ADD(rt_malloc);
    ADD(rt_free);
    ADD(rt_assertfail);
    ADD(rt_trap);
    ADD(rt_unknown);
    ADD(rt_misaligned);
    ADD(rt_tex);
    ADD(rt_clock);
    ADD(rt_globaltimer);
#undef ADD
}

void add_libm(Table &t)
{
#define ONE(name) \
    t[#name] = address(static_cast<double (*)(double)>(&::name)); \
    t[#name "f"] = address(static_cast<float (*)(float)>(&::name##f))
#define TWO(name) \
    t[#name] = address(static_cast<double (*)(double, double)>(&::name)); \
    t[#name "f"] = address(static_cast<float (*)(float, float)>(&::name##f))
    ONE(sin);
    ONE(cos);
    ONE(tan);
    ONE(asin);
    ONE(acos);
    ONE(atan);
    ONE(sinh);
    ONE(cosh);
    ONE(tanh);
    ONE(asinh);
    ONE(acosh);
    ONE(atanh);
    ONE(exp);
    ONE(exp2);
    ONE(exp10);
    ONE(expm1);
    ONE(log);
    ONE(log2);
    ONE(log10);
    ONE(log1p);
    ONE(logb);
    ONE(sqrt);
    ONE(cbrt);
    ONE(erf);
    ONE(erfc);
    ONE(tgamma);
    ONE(lgamma);
    ONE(ceil);
    ONE(floor);
    ONE(trunc);
    ONE(round);
    ONE(roundeven);
    ONE(rint);
    ONE(nearbyint);
    ONE(fabs);
    TWO(pow);
    TWO(atan2);
    TWO(fmod);
    TWO(remainder);
    TWO(hypot);
    TWO(fdim);
    TWO(fmin);
    TWO(fmax);
    TWO(copysign);
    TWO(nextafter);
#undef ONE
#undef TWO
    t["fma"] = address(static_cast<double (*)(double, double, double)>(&::fma));
    t["fmaf"] = address(static_cast<float (*)(float, float, float)>(&::fmaf));
    t["ldexp"] = address(static_cast<double (*)(double, int)>(&::ldexp));
    t["ldexpf"] = address(static_cast<float (*)(float, int)>(&::ldexpf));
    t["scalbn"] = address(static_cast<double (*)(double, int)>(&::scalbn));
    t["scalbnf"] = address(static_cast<float (*)(float, int)>(&::scalbnf));
    t["frexp"] = address(static_cast<double (*)(double, int *)>(&::frexp));
    t["frexpf"] = address(static_cast<float (*)(float, int *)>(&::frexpf));
    t["modf"] = address(static_cast<double (*)(double, double *)>(&::modf));
    t["modff"] = address(static_cast<float (*)(float, float *)>(&::modff));
    t["sincos"] = address(&::sincos);
    t["sincosf"] = address(&::sincosf);
}

void add_compilers_own(Table &t)
{
    t["memcpy"] = address(static_cast<void *(*)(void *, const void *, size_t)>(&::memcpy));
    t["memmove"] = address(static_cast<void *(*)(void *, const void *, size_t)>(&::memmove));
    t["memset"] = address(static_cast<void *(*)(void *, int, size_t)>(&::memset));
    t["memcmp"] = address(static_cast<int (*)(const void *, const void *, size_t)>(&::memcmp));
#define ADD(name) t[#name] = address(&::name)
    ADD(__extendhfsf2);
    ADD(__truncsfhf2);
    ADD(__truncdfhf2);
    ADD(__divti3);
    ADD(__modti3);
    ADD(__udivti3);
    ADD(__umodti3);
    ADD(__multi3);
#undef ADD
    t["__truncsfbf2"] = address(&truncsfbf2);
    t["__truncdfbf2"] = address(&truncdfbf2);
}

}  // namespace

uint64_t runtime_symbol(std::string_view name)
{
    static const Table *table = [] {
        auto *t = new Table;
        add_runtime(*t);
        add_libm(*t);
        add_compilers_own(*t);
        return t;
    }();
    auto found = table->find(name);
    return found == table->end() ? 0 : found->second;
}

}  // namespace rgpu::softgpu::exec
