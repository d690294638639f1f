// SPDX-License-Identifier: Apache-2.0
// The small floating-point formats, and functions of libm, as LLVM IR.
#include "softgpu/lower/prelude_library.h"

namespace rgpu::softgpu::lower {

void add_halves(PreludeLibrary &lib)
{
    lib.define("i16", "h.bf16.rn", "float %a", R"(
  %b = bitcast float %a to i32
  %s = lshr i32 %b, 16
  %lsb = and i32 %s, 1
  %bias = add i32 %lsb, 32767
  %sum = add i32 %b, %bias
  %up = lshr i32 %sum, 16
  %t = trunc i32 %up to i16
  %nan = fcmp uno float %a, 0.0
  %r = select i1 %nan, i16 32767, i16 %t
  ret i16 %r
)");
    // Infinity to the largest number, NaN to NaN.
    constexpr std::string_view finite = R"(
  %m = and i16 %h, 32767
  %inf = icmp eq i16 %m, {infinity}
  %less = sub i16 %h, 1
  %r = select i1 %inf, i16 %less, i16 %h
  ret i16 %r
)";
    lib.define("i16", "h.bf16.finite", "i16 %h", fill(finite, {{"infinity", "32640"}}));
    lib.define("i16", "h.f16.finite", "i16 %h", fill(finite, {{"infinity", "31744"}}));
    lib.define("float", "h.ftz", "float %a", R"(
  %b = bitcast float %a to i32
  %e = and i32 %b, 2139095040
  %small = icmp eq i32 %e, 0
  %s = and i32 %b, -2147483648
  %r = select i1 %small, i32 %s, i32 %b
  %f = bitcast i32 %r to float
  ret float %f
)");
}

void add_tf32(PreludeLibrary &lib)
{
    constexpr std::string_view cut = R"(
  %b = bitcast float %a to i32
  %s = add i32 %b, {bias}
  %t = and i32 %s, -8192
  %e = and i32 %b, 2139095040
  %special = icmp eq i32 %e, 2139095040
  %r = select i1 %special, i32 %b, i32 %t
  ret i32 %r
)";
    lib.define("i32", "h.tf32.rna", "float %a", fill(cut, {{"bias", "4096"}}));
    lib.define("i32", "h.tf32.rz", "float %a", fill(cut, {{"bias", "0"}}));
    lib.define("i32", "h.tf32.rn", "float %a", R"(
  %b = bitcast float %a to i32
  %h = lshr i32 %b, 13
  %lsb = and i32 %h, 1
  %bias = add i32 %lsb, 4095
  %s = add i32 %b, %bias
  %t = and i32 %s, -8192
  %e = and i32 %b, 2139095040
  %special = icmp eq i32 %e, 2139095040
  %r = select i1 %special, i32 %b, i32 %t
  ret i32 %r
)");
}

namespace {

// A float to an 8-bit one, saturating to the largest number. Scaled so that the smallest subnormal
// is 1: below 2^(m+1) such a number rounds to an integer by adding and taking away; above, the
// float's own mantissa is cut.
constexpr std::string_view kToFp8 = R"(
  %b = bitcast float %a to i32
  %s = lshr i32 %b, 24
  %sign = and i32 %s, 128
  %m = and i32 %b, 2147483647
  %abs = bitcast i32 %m to float
  ; normal: round the mantissa to nearest even, rebias
  %k = lshr i32 %m, {shift}
  %lsb = and i32 %k, 1
  %bias0 = add i32 %lsb, {half}
  %sum = add i32 %m, %bias0
  %cut = lshr i32 %sum, {shift}
  %normal = sub i32 %cut, {rebias}
  ; subnormal: |a| / smallest, rounded to an integer
  %scaled = fmul float %abs, {scale}.0
  %even = call float @llvm.roundeven.f32(float %scaled)
  %sub = call i32 @llvm.fptoui.sat.i32.f32(float %even)
  %small = icmp ult i32 %m, {least}
  %v = select i1 %small, i32 %sub, i32 %normal
  %over = icmp ugt i32 %v, {largest}
  %w = select i1 %over, i32 {largest}, i32 %v
  %nan = fcmp uno float %a, 0.0
  %n = or i32 %w, %sign
  %r = select i1 %nan, i32 {nan}, i32 %n
  %t = trunc i32 %r to i16
  ret i16 %t
)";

}  // namespace

void add_fp8(PreludeLibrary &lib)
{
    struct Format {
        const char *name;
        int mantissa, bias;  // bits of mantissa; the exponent's bias
        unsigned largest, nan;
    };
    for (const Format &f :
         {Format{"h.e4m3", 3, 7, 0x7E, 0x7F}, Format{"h.e5m2", 2, 15, 0x7B, 0x7F}}) {
        const int shift = 23 - f.mantissa;
        lib.define("i16", f.name, "float %a",
                   fill(kToFp8, {{"shift", std::to_string(shift)},
                                 {"half", std::to_string((1 << (shift - 1)) - 1)},
                                 {"rebias", std::to_string((127 - f.bias) << f.mantissa)},
                                 {"scale", std::to_string(1 << (f.bias - 1 + f.mantissa))},
                                 {"least", std::to_string((127 - f.bias + 1) << 23)},
                                 {"largest", std::to_string(f.largest)},
                                 {"nan", std::to_string(f.nan)}}));
    }
    lib.other("llvm.roundeven.f32", "declare float @llvm.roundeven.f32(float)\n");
    lib.other("llvm.fptoui.sat.i32.f32", "declare i32 @llvm.fptoui.sat.i32.f32(float)\n");
    // e5m2 is the high byte of a half.
    lib.define("float", "h.e5m2.float", "i16 %a", R"(
  %h = shl i16 %a, 8
  %x = bitcast i16 %h to half
  %f = fpext half %x to float
  ret float %f
)");
    lib.define("float", "h.e4m3.float", "i16 %a", R"(
  %w = zext i16 %a to i32
  %m = and i32 %w, 127
  %up = shl i32 %m, 20
  %rebias = add i32 %up, 1006632960
  %normal = bitcast i32 %rebias to float
  %i = uitofp i32 %m to float
  %sub = fmul float %i, 0.001953125
  %small = icmp ult i32 %m, 8
  %abs = select i1 %small, float %sub, float %normal
  %bits = bitcast float %abs to i32
  %s = and i32 %w, 128
  %s2 = shl i32 %s, 24
  %signed = or i32 %bits, %s2
  %nan = icmp eq i32 %m, 127
  %r = select i1 %nan, i32 2147483647, i32 %signed
  %f = bitcast i32 %r to float
  ret float %f
)");
}

void add_functions(PreludeLibrary &lib)
{
    for (auto [name, symbol] : {std::pair{"h.ex2", "exp2f"},
                                {"h.lg2", "log2f"},
                                {"h.sin", "sinf"},
                                {"h.cos", "cosf"},
                                {"h.tanh", "tanhf"}}) {
        lib.other(symbol, fill("declare float @{f}(float) nounwind willreturn memory(none)\n",
                               {{"f", symbol}}));
        lib.define("float", name, "float %a",
                   fill(R"(
  %r = call float @{f}(float %a)
  ret float %r
)",
                        {{"f", symbol}}));
    }
}

}  // namespace rgpu::softgpu::lower
