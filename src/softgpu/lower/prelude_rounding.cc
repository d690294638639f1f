// SPDX-License-Identifier: Apache-2.0
// Rounding that the processor's default mode does not do: directed, and to odd, as LLVM IR.
#include "softgpu/lower/prelude_library.h"

namespace rgpu::softgpu::lower {

namespace {

// MXCSR is set around the one instruction, inside one asm, so that nothing else can come between.
// {m0} and {m1} are the numbers of the two operands in memory.
constexpr std::string_view kInMode = R"(
  %r = call {T} asm "ldmxcsr ${m0}\0A{instruction}\0Aldmxcsr ${m1}", "{constraints},*m,*m"(
      {arguments}, ptr elementtype(i32) @mx.{mode}, ptr elementtype(i32) @mx.rn)
  ret {T} %r
)";

// Above 2^63: halve, keep a lost bit, double.
constexpr std::string_view kUnsigned64 = R"(
  %top = icmp slt i64 %a, 0
  %half = lshr i64 %a, 1
  %lost = and i64 %a, 1
  %sticky = or i64 %half, %lost
  %in = select i1 %top, i64 %sticky, i64 %a
  %f = call {T} @h.s64.{mode}.{suffix}(i64 %in)
  %two = fadd {T} %f, %f
  %r = select i1 %top, {T} %two, {T} %f
  ret {T} %r
)";

// To halves: round to nearest, then one step back where that went the wrong way.
constexpr std::string_view kNearestHalf = R"(
  %hh = fptrunc float %a to half
  %h = bitcast half %hh to i16
  %back = fpext half %hh to float
)";
constexpr std::string_view kNearestBf16 = R"(
  %h = call i16 @h.bf16.rn(float %a)
  %w = zext i16 %h to i32
  %w2 = shl i32 %w, 16
  %back = bitcast i32 %w2 to float
)";
constexpr std::string_view kStepBack = R"(
  %negative = icmp slt i16 %h, 0
  %smaller = sub i16 %h, 1
  %larger = add i16 %h, 1
)";
// Towards zero the magnitude shrinks; rm and rp move along the number line.
constexpr std::string_view kTowardsZero = R"(
  %absback = call float @llvm.fabs.f32(float %back)
  %absa = call float @llvm.fabs.f32(float %a)
  %wrong = fcmp ogt float %absback, %absa
  %moved = add i16 %smaller, 0
)";
constexpr std::string_view kDown = R"(
  %wrong = fcmp ogt float %back, %a
  %zero = icmp eq i16 %h, 0
  %m0 = select i1 %negative, i16 %larger, i16 %smaller
  %moved = select i1 %zero, i16 -32767, i16 %m0
)";
constexpr std::string_view kUp = R"(
  %wrong = fcmp olt float %back, %a
  %zero = icmp eq i16 %h, -32768
  %m0 = select i1 %negative, i16 %smaller, i16 %larger
  %moved = select i1 %zero, i16 1, i16 %m0
)";
constexpr std::string_view kChooseHalf = R"(
  %r = select i1 %wrong, i16 %moved, i16 %h
  ret i16 %r
)";

struct Mode {
    const char *name;
    unsigned mxcsr;  // all exceptions masked; rounding control in bits 13 and 14
    std::string_view half;
};
constexpr Mode kModes[] = {{"rz", 0x1F80 | 3 << 13, kTowardsZero},
                           {"rm", 0x1F80 | 1 << 13, kDown},
                           {"rp", 0x1F80 | 2 << 13, kUp}};

void add_control(PreludeLibrary &lib, const std::string &mode, unsigned mxcsr)
{
    lib.other("mx." + mode,
              "@mx." + mode + " = internal constant i32 " + std::to_string(mxcsr) + "\n");
}

// One instruction of the processor, with its operands as AT&T's assembler has them.
struct Wrapped {
    std::string name, type, parameters, instruction, constraints;
    unsigned first_memory;  // how many operands come before the two in memory
};

void add_wrapped(PreludeLibrary &lib, const Mode &mode, const Wrapped &w)
{
    lib.define(w.type, w.name, w.parameters,
               fill(kInMode, {{"T", w.type},
                              {"m0", std::to_string(w.first_memory)},
                              {"m1", std::to_string(w.first_memory + 1)},
                              {"instruction", w.instruction},
                              {"constraints", w.constraints},
                              {"arguments", w.parameters},
                              {"mode", mode.name}}));
}

// float and double, as LLVM, PTX and the processor's instructions call them.
struct Precision {
    std::string type, ptx, instruction;
};

void add_arithmetic(PreludeLibrary &lib, const Mode &mode, const Precision &p)
{
    auto with_precision = [&](std::string_view text) {
        return fill(text,
                    {{"T", p.type}, {"mode", mode.name}, {"suffix", p.ptx}, {"ss", p.instruction}});
    };
    auto wrap = [&](std::string_view name, std::string_view parameters,
                    std::string_view instruction, const char *constraints, unsigned first_memory) {
        add_wrapped(lib, mode,
                    {with_precision(name), p.type, with_precision(parameters),
                     with_precision(instruction), constraints, first_memory});
    };
    for (const char *op : {"add", "sub", "mul", "div"})
        wrap(std::string("h.") + op + ".{mode}.{suffix}", "{T} %a, {T} %b",
             std::string(op) + "{ss} $2, $0", "=&x,0,x", 3);
    wrap("h.sqrt.{mode}.{suffix}", "{T} %a", "sqrt{ss} $1, $0", "=&x,x", 2);
    wrap("h.fma.{mode}.{suffix}", "{T} %a, {T} %b, {T} %c", "vfmadd213{ss} $3, $2, $0", "=&x,0,x,x",
         4);
    wrap("h.s64.{mode}.{suffix}", "i64 %a", "xorps $0, $0\\0Acvtsi2{ss}q $1, $0", "=&x,r", 2);
    lib.define(p.type, with_precision("h.u64.{mode}.{suffix}"), "i64 %a",
               with_precision(kUnsigned64));
}

}  // namespace

void add_directed_rounding(PreludeLibrary &lib)
{
    add_control(lib, "rn", 0x1F80);
    for (const Mode &mode : kModes) {
        const std::string name = mode.name;
        add_control(lib, name, mode.mxcsr);
        add_arithmetic(lib, mode, {"float", "f32", "ss"});
        add_arithmetic(lib, mode, {"double", "f64", "sd"});
        add_wrapped(lib, mode,
                    {"h.narrow." + name, "float", "double %a", "xorps $0, $0\\0Acvtsd2ss $1, $0",
                     "=&x,x", 2});
        for (auto [to, nearest] : {std::pair{"h.f16.", kNearestHalf}, {"h.bf16.", kNearestBf16}}) {
            std::string body;
            for (std::string_view part : {nearest, kStepBack, mode.half, kChooseHalf}) body += part;
            lib.define("i16", to + name, "float %a", body);
        }
    }
    lib.other("llvm.fabs.f32", "declare float @llvm.fabs.f32(float)\n");
}

void add_rounding_to_odd(PreludeLibrary &lib)
{
    // double to float, rounded to odd: the float below in magnitude, its last bit set where
    // something was cut off. A second rounding to fewer digits is then right.
    lib.define("float", "h.f64.odd", "double %a", R"(
  %n = fptrunc double %a to float
  %back = fpext float %n to double
  %ba = call double @llvm.fabs.f64(double %back)
  %aa = call double @llvm.fabs.f64(double %a)
  %exact = fcmp ueq double %back, %a
  %over = fcmp ogt double %ba, %aa
  %bits = bitcast float %n to i32
  %less = sub i32 %bits, 1
  %cut = select i1 %over, i32 %less, i32 %bits
  %odd = or i32 %cut, 1
  %r = select i1 %exact, i32 %bits, i32 %odd
  %f = bitcast i32 %r to float
  ret float %f
)");
    lib.other("llvm.fabs.f64", "declare double @llvm.fabs.f64(double)\n");
    // a*b+c to float, rounded to odd. The product is exact in double; the error of the sum is what
    // TwoSum finds.
    lib.define("float", "h.fma.odd", "float %a, float %b, float %c", R"(
  %x = fpext float %a to double
  %y = fpext float %b to double
  %z = fpext float %c to double
  %p = fmul double %x, %y
  %s = fadd double %p, %z
  %bb = fsub double %s, %p
  %sb = fsub double %s, %bb
  %ea = fsub double %p, %sb
  %eb = fsub double %z, %bb
  %e = fadd double %ea, %eb
  %ze = fcmp ueq double %e, 0.0
  %bits = bitcast double %s to i64
  %last = and i64 %bits, 1
  %isodd = icmp ne i64 %last, 0
  %epos = fcmp ogt double %e, 0.0
  %spos = fcmp ogt double %s, 0.0
  %away = icmp eq i1 %epos, %spos
  %up = add i64 %bits, 1
  %down = sub i64 %bits, 1
  %moved = select i1 %away, i64 %up, i64 %down
  %keep = or i1 %ze, %isodd
  %r = select i1 %keep, i64 %bits, i64 %moved
  %d = bitcast i64 %r to double
  %f = call float @h.f64.odd(double %d)
  ret float %f
)");
    // Integers to float, rounded to odd, by way of a double that holds the top 53 bits and a sticky
    // one.
    lib.define("float", "h.u64.odd", "i64 %a", R"(
  %big = icmp ugt i64 %a, 9007199254740991
  %high = lshr i64 %a, 12
  %low = and i64 %a, 4095
  %lost = icmp ne i64 %low, 0
  %sticky = zext i1 %lost to i64
  %top = or i64 %high, %sticky
  %dt = uitofp i64 %top to double
  %scaled = fmul double %dt, 4096.0
  %d = uitofp i64 %a to double
  %r = select i1 %big, double %scaled, double %d
  %f = call float @h.f64.odd(double %r)
  ret float %f
)");
    lib.define("float", "h.s64.odd", "i64 %a", R"(
  %negative = icmp slt i64 %a, 0
  %minus = sub i64 0, %a
  %m = select i1 %negative, i64 %minus, i64 %a
  %f = call float @h.u64.odd(i64 %m)
  %n = fneg float %f
  %r = select i1 %negative, float %n, float %f
  ret float %r
)");
}

}  // namespace rgpu::softgpu::lower
