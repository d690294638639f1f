// Functions in LLVM IR that lowered code calls: what is no single LLVM instruction. Only those used
// are added.
#include <deque>
#include <map>

#include "softgpu/lower/lower.h"

namespace rgpu::softgpu::lower {

namespace {

using Library = std::map<std::string, std::string, std::less<>>;

// "define internal TYPE @NAME(PARAMETERS) alwaysinline ... { BODY }"
void add(Library &lib, std::string_view type, std::string_view name, std::string_view parameters,
         std::string_view body)
{
    lib.emplace(name, join("define internal ", type, " @", name, "(", parameters,
                           ") alwaysinline nounwind {\n", body, "}\n\n"));
}

void bit_fields(Library &lib)
{
    for (unsigned w : {32u, 64u}) {
        std::string t = ll_int(w), last = std::to_string(w - 1), width = std::to_string(w);
        std::string fit = w == 64 ? "zext i32 " : "add i32 0, ";
        std::string tail = w == 64 ? " to i64" : "";
        // Position and length are taken from their low eight bits.
        for (const char *s : {"u", "s"}) {
            std::string body = "  %p = and i32 %position, 255\n  %n = and i32 %length, 255\n"
                               "  %end = add i32 %p, %n\n"
                               "  %over = icmp uge i32 %end, " +
                               width +
                               "\n"
                               "  %pin = icmp ult i32 %p, " +
                               width +
                               "\n"
                               "  %psafe = select i1 %pin, i32 %p, i32 0\n"
                               "  %pw = " +
                               fit + "%psafe" + tail +
                               "\n"
                               "  %down = lshr " +
                               t +
                               " %a, %pw\n"
                               "  %down2 = select i1 %pin, " +
                               t + " %down, " + t +
                               " 0\n"
                               // Keep n bits: mask of min(n, width).
                               "  %nin = icmp ult i32 %n, " +
                               width +
                               "\n"
                               "  %nsafe = select i1 %nin, i32 %n, i32 0\n"
                               "  %nw = " +
                               fit + "%nsafe" + tail +
                               "\n"
                               "  %bit = shl " +
                               t +
                               " 1, %nw\n"
                               "  %mask = sub " +
                               t +
                               " %bit, 1\n"
                               "  %mask2 = select i1 %nin, " +
                               t + " %mask, " + t +
                               " -1\n"
                               "  %field = and " +
                               t + " %down2, %mask2\n";
            if (*s == 'u') {
                body += "  ret " + t + " %field\n";
            } else {
                // The sign is bit min(p+n-1, width-1) of a; above the field it is repeated.
                body += "  %last = sub i32 %end, 1\n"
                        "  %lastc = select i1 %over, i32 " +
                        last +
                        ", i32 %last\n"
                        "  %none = icmp eq i32 %n, 0\n"
                        "  %lasts = select i1 %none, i32 0, i32 %lastc\n"
                        "  %lw = " +
                        fit + "%lasts" + tail +
                        "\n"
                        "  %sb = lshr " +
                        t +
                        " %a, %lw\n"
                        "  %sbit = and " +
                        t +
                        " %sb, 1\n"
                        "  %fill = sub " +
                        t +
                        " 0, %sbit\n"
                        // Bits of the field that come from a: min(n, width-p).
                        "  %avail = sub i32 " +
                        width +
                        ", %psafe\n"
                        "  %availc = select i1 %pin, i32 %avail, i32 0\n"
                        "  %less = icmp ult i32 %n, %availc\n"
                        "  %have = select i1 %less, i32 %n, i32 %availc\n"
                        "  %hin = icmp ult i32 %have, " +
                        width +
                        "\n"
                        "  %hsafe = select i1 %hin, i32 %have, i32 0\n"
                        "  %hw = " +
                        fit + "%hsafe" + tail +
                        "\n"
                        "  %hbit = shl " +
                        t +
                        " 1, %hw\n"
                        "  %hmask = sub " +
                        t +
                        " %hbit, 1\n"
                        "  %hmask2 = select i1 %hin, " +
                        t + " %hmask, " + t +
                        " -1\n"
                        "  %above = xor " +
                        t +
                        " %hmask2, -1\n"
                        "  %high = and " +
                        t +
                        " %fill, %above\n"
                        "  %low = and " +
                        t +
                        " %down2, %hmask2\n"
                        "  %both = or " +
                        t +
                        " %high, %low\n"
                        "  %r = select i1 %none, " +
                        t + " 0, " + t +
                        " %both\n"
                        "  ret " +
                        t + " %r\n";
            }
            add(lib, t, join("h.bfe.", s, width), t + " %a, i32 %position, i32 %length", body);
        }
        add(lib, t, "h.bfi." + width, t + " %a, " + t + " %b, i32 %position, i32 %length",
            "  %p = and i32 %position, 255\n  %n = and i32 %length, 255\n"
            "  %pin = icmp ult i32 %p, " +
                width +
                "\n"
                "  %psafe = select i1 %pin, i32 %p, i32 0\n"
                "  %pw = " +
                fit + "%psafe" + tail +
                "\n"
                "  %nin = icmp ult i32 %n, " +
                width +
                "\n"
                "  %nsafe = select i1 %nin, i32 %n, i32 0\n"
                "  %nw = " +
                fit + "%nsafe" + tail +
                "\n"
                "  %bit = shl " +
                t +
                " 1, %nw\n"
                "  %ones = sub " +
                t +
                " %bit, 1\n"
                "  %ones2 = select i1 %nin, " +
                t + " %ones, " + t +
                " -1\n"
                "  %mask0 = shl " +
                t +
                " %ones2, %pw\n"
                "  %mask = select i1 %pin, " +
                t + " %mask0, " + t +
                " 0\n"
                "  %up = shl " +
                t +
                " %a, %pw\n"
                "  %in = and " +
                t +
                " %up, %mask\n"
                "  %inverse = xor " +
                t +
                " %mask, -1\n"
                "  %out = and " +
                t +
                " %b, %inverse\n"
                "  %r = or " +
                t +
                " %in, %out\n"
                "  ret " +
                t + " %r\n");
    }
    // The n-th set bit from `base`, upwards for n > 0, downwards for n < 0; n = 0: base itself, if
    // set.
    add(lib, "i32", "h.fns", "i32 %mask, i32 %base, i32 %offset", R"(
  %down = icmp slt i32 %offset, 0
  %step = select i1 %down, i32 -1, i32 1
  %neg = sub i32 0, %offset
  %abs = select i1 %down, i32 %neg, i32 %offset
  %zero = icmp eq i32 %abs, 0
  %want = select i1 %zero, i32 1, i32 %abs
  br label %loop
loop:
  %at = phi i32 [ %base, %0 ], [ %next, %more ]
  %left = phi i32 [ %want, %0 ], [ %left2, %more ]
  %inside = icmp ult i32 %at, 32
  br i1 %inside, label %look, label %none
look:
  %shifted = lshr i32 %mask, %at
  %bit = and i32 %shifted, 1
  %left2 = sub i32 %left, %bit
  %done = icmp eq i32 %left2, 0
  br i1 %done, label %found, label %more
more:
  %next = add i32 %at, %step
  br i1 %zero, label %none, label %loop
found:
  ret i32 %at
none:
  ret i32 -1
)");
}

void permutes(Library &lib)
{
    // Byte i of the result: selector nibble i picks one of eight bytes, its bit 3 repeats that
    // byte's sign.
    std::string body = "  %wa = zext i32 %a to i64\n  %wb = zext i32 %b to i64\n"
                       "  %wb2 = shl i64 %wb, 32\n  %all = or i64 %wa, %wb2\n";
    std::string previous = "0";
    for (int i = 0; i < 4; ++i) {
        std::string n = std::to_string(i);
        body += "  %s" + n + " = lshr i32 %s, " + std::to_string(4 * i) + "\n" + "  %k" + n +
                " = and i32 %s" + n + ", 7\n" + "  %m" + n + " = shl i32 %k" + n + ", 3\n" +
                "  %mw" + n + " = zext i32 %m" + n + " to i64\n" + "  %d" + n +
                " = lshr i64 %all, %mw" + n + "\n" + "  %t" + n + " = trunc i64 %d" + n +
                " to i8\n" + "  %g" + n + " = ashr i8 %t" + n + ", 7\n" + "  %f" + n +
                " = and i32 %s" + n + ", 8\n" + "  %q" + n + " = icmp ne i32 %f" + n + ", 0\n" +
                "  %y" + n + " = select i1 %q" + n + ", i8 %g" + n + ", i8 %t" + n + "\n" + "  %z" +
                n + " = zext i8 %y" + n + " to i32\n" + "  %x" + n + " = shl i32 %z" + n + ", " +
                std::to_string(8 * i) + "\n" + "  %r" + n + " = or i32 " + previous + ", %x" + n +
                "\n";
        previous = "%r" + n;
    }
    add(lib, "i32", "h.prmt", "i32 %a, i32 %b, i32 %s", body + "  ret i32 " + previous + "\n");
    // The named modes: a selector for each value of s & 3.
    struct Mode {
        const char *name;
        unsigned selectors[4];
    };
    static constexpr Mode modes[] = {
        {"f4e", {0x3210, 0x4321, 0x5432, 0x6543}}, {"b4e", {0x5670, 0x6701, 0x7012, 0x0123}},
        {"rc8", {0x0000, 0x1111, 0x2222, 0x3333}}, {"ecl", {0x3210, 0x3211, 0x3222, 0x3333}},
        {"ecr", {0x0000, 0x1110, 0x2210, 0x3210}}, {"rc16", {0x1010, 0x3232, 0x1010, 0x3232}}};
    for (const Mode &m : modes) {
        std::string b = "  %k = and i32 %s, 3\n";
        std::string value = std::to_string(m.selectors[0]);
        for (int i = 1; i < 4; ++i) {
            std::string n = std::to_string(i);
            b += "  %c" + n + " = icmp eq i32 %k, " + n + "\n  %v" + n + " = select i1 %c" + n +
                 ", i32 " + std::to_string(m.selectors[i]) + ", i32 " + value + "\n";
            value = "%v" + n;
        }
        add(lib, "i32", join("h.prmt.", m.name), "i32 %a, i32 %b, i32 %s",
            b + "  %r = call i32 @h.prmt(i32 %a, i32 %b, i32 " + value + ")\n  ret i32 %r\n");
    }
}

// Rounding other than to nearest: MXCSR is set around the one instruction, inside one asm, so that
// nothing else can come between.
void directed(Library &lib)
{
    struct Mode {
        const char *name;
        unsigned mxcsr;
    };
    // All exceptions masked; rounding control in bits 13 and 14.
    static constexpr Mode modes[] = {
        {"rz", 0x1F80 | 3 << 13}, {"rm", 0x1F80 | 1 << 13}, {"rp", 0x1F80 | 2 << 13}};
    auto control = [&](const std::string &name, unsigned value) {
        lib.emplace("mx." + name,
                    "@mx." + name + " = internal constant i32 " + std::to_string(value) + "\n");
    };
    control("rn", 0x1F80);
    for (const Mode &m : modes) {
        control(m.name, m.mxcsr);
        std::string round = m.name;
        auto wrap = [&](const std::string &name, const std::string &type,
                        const std::string &parameters, const std::string &instruction,
                        const std::string &constraints, const std::string &arguments,
                        unsigned first_memory) {
            std::string k0 = std::to_string(first_memory), k1 = std::to_string(first_memory + 1);
            add(lib, type, name, parameters,
                "  %r = call " + type + " asm \"ldmxcsr $" + k0 + "\\0A" + instruction +
                    "\\0Aldmxcsr $" + k1 + "\", \"" + constraints + ",*m,*m\"(" + arguments +
                    ", ptr elementtype(i32) @mx." + round +
                    ", ptr elementtype(i32) @mx.rn)\n  ret " + type + " %r\n");
        };
        for (const char *op : {"add", "sub", "mul", "div"})
            for (const char *s : {"f32", "f64"}) {
                std::string t = s[1] == '3' ? "float" : "double",
                            suffix = s[1] == '3' ? "ss" : "sd";
                wrap(join("h.", op, ".", round, ".", s), t, t + " %a, " + t + " %b",
                     join(op, suffix, " $2, $0"), "=&x,0,x", t + " %a, " + t + " %b", 3);
            }
        for (const char *s : {"f32", "f64"}) {
            std::string t = s[1] == '3' ? "float" : "double", suffix = s[1] == '3' ? "ss" : "sd";
            wrap(join("h.sqrt.", round, ".", s), t, t + " %a", join("sqrt", suffix, " $1, $0"),
                 "=&x,x", t + " %a", 2);
            wrap(join("h.fma.", round, ".", s), t, t + " %a, " + t + " %b, " + t + " %c",
                 join("vfmadd213", suffix, " $3, $2, $0"), "=&x,0,x,x",
                 t + " %a, " + t + " %b, " + t + " %c", 4);
            wrap(join("h.s64.", round, ".", s), t, "i64 %a",
                 join("xorps $0, $0\\0Acvtsi2", suffix, "q $1, $0"), "=&x,r", "i64 %a", 2);
            // Above 2^63: halve, keep a lost bit, double.
            add(lib, t, join("h.u64.", round, ".", s), "i64 %a",
                "  %top = icmp slt i64 %a, 0\n  %half = lshr i64 %a, 1\n  %lost = and i64 %a, 1\n"
                "  %sticky = or i64 %half, %lost\n  %in = select i1 %top, i64 %sticky, i64 %a\n"
                "  %f = call " +
                    t + " @h.s64." + round + "." + s +
                    "(i64 %in)\n"
                    "  %two = fadd " +
                    t + " %f, %f\n  %r = select i1 %top, " + t + " %two, " + t +
                    " %f\n"
                    "  ret " +
                    t + " %r\n");
        }
        wrap("h.narrow." + round, "float", "double %a", "xorps $0, $0\\0Acvtsd2ss $1, $0", "=&x,x",
             "double %a", 2);
        // To halves: round to nearest, then one step back where that went the wrong way.
        std::string wrong = round == "rm"   ? "fcmp ogt float %back, %a"
                            : round == "rp" ? "fcmp olt float %back, %a"
                                            : "fcmp ogt float %absback, %absa";
        std::string extra = round == "rz" ? "  %absback = call float @llvm.fabs.f32(float %back)\n "
                                            " %absa = call float @llvm.fabs.f32(float %a)\n"
                                          : "";
        // Towards zero the magnitude shrinks; rm and rp move along the number line.
        std::string step =
            "  %negative = icmp slt i16 %h, 0\n  %smaller = sub i16 %h, 1\n  %larger = add i16 %h, "
            "1\n";
        if (round == "rz") step += "  %moved = add i16 %smaller, 0\n";
        if (round == "rm")
            step += "  %zero = icmp eq i16 %h, 0\n  %m0 = select i1 %negative, i16 %larger, i16 "
                    "%smaller\n  %moved = select i1 %zero, i16 -32767, i16 %m0\n";
        if (round == "rp")
            step +=
                "  %zero = icmp eq i16 %h, -32768\n  %m0 = select i1 %negative, i16 %smaller, i16 "
                "%larger\n  %moved = select i1 %zero, i16 1, i16 %m0\n";
        for (bool bf : {false, true}) {
            std::string there =
                bf ? "  %h = call i16 @h.bf16.rn(float %a)\n  %w = zext i16 %h to i32\n  %w2 = shl "
                     "i32 %w, 16\n  %back = bitcast i32 %w2 to float\n"
                   : "  %hh = fptrunc float %a to half\n  %h = bitcast half %hh to i16\n  %back = "
                     "fpext half %hh to float\n";
            add(lib, "i16", join(bf ? "h.bf16." : "h.f16.", round), "float %a",
                there + extra + "  %wrong = " + wrong + "\n" + step +
                    "  %r = select i1 %wrong, i16 %moved, i16 %h\n  ret i16 %r\n");
        }
    }
    lib.emplace("llvm.fabs.f32", "declare float @llvm.fabs.f32(float)\n");
}

void halves(Library &lib)
{
    add(lib, "i16", "h.bf16.rn", "float %a", R"(
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
    add(lib, "i16", "h.bf16.finite", "i16 %h", R"(
  %m = and i16 %h, 32767
  %inf = icmp eq i16 %m, 32640
  %less = sub i16 %h, 1
  %r = select i1 %inf, i16 %less, i16 %h
  ret i16 %r
)");
    add(lib, "i16", "h.f16.finite", "i16 %h", R"(
  %m = and i16 %h, 32767
  %inf = icmp eq i16 %m, 31744
  %less = sub i16 %h, 1
  %r = select i1 %inf, i16 %less, i16 %h
  ret i16 %r
)");
    add(lib, "float", "h.ftz", "float %a", R"(
  %b = bitcast float %a to i32
  %e = and i32 %b, 2139095040
  %small = icmp eq i32 %e, 0
  %s = and i32 %b, -2147483648
  %r = select i1 %small, i32 %s, i32 %b
  %f = bitcast i32 %r to float
  ret float %f
)");
    // double to float, rounded to odd: the float below in magnitude, its last bit set where
    // something was cut off. A second rounding to fewer digits is then right.
    add(lib, "float", "h.f64.odd", "double %a", R"(
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
    lib.emplace("llvm.fabs.f64", "declare double @llvm.fabs.f64(double)\n");
    // a*b+c to float, rounded to odd. The product is exact in double; the error of the sum is what
    // TwoSum finds.
    add(lib, "float", "h.fma.odd", "float %a, float %b, float %c", R"(
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
    add(lib, "float", "h.u64.odd", "i64 %a", R"(
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
    add(lib, "float", "h.s64.odd", "i64 %a", R"(
  %negative = icmp slt i64 %a, 0
  %minus = sub i64 0, %a
  %m = select i1 %negative, i64 %minus, i64 %a
  %f = call float @h.u64.odd(i64 %m)
  %n = fneg float %f
  %r = select i1 %negative, float %n, float %f
  ret float %r
)");
    for (auto [name, bias] : {std::pair{"h.tf32.rna", "4096"}, {"h.tf32.rz", "0"}})
        add(lib, "i32", name, "float %a",
            std::string("  %b = bitcast float %a to i32\n  %s = add i32 %b, ") + bias +
                "\n  %t = and i32 %s, -8192\n  %e = and i32 %b, 2139095040\n  %special = icmp eq "
                "i32 %e, 2139095040\n"
                "  %r = select i1 %special, i32 %b, i32 %t\n  ret i32 %r\n");
    add(lib, "i32", "h.tf32.rn", "float %a", R"(
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

// 8-bit floats, saturating to the largest number. m: bits of mantissa; the exponent's bias; the
// largest.
void fp8(Library &lib)
{
    struct Format {
        const char *name;
        int mantissa, bias;
        unsigned largest, nan;
    };
    for (const Format &f :
         {Format{"h.e4m3", 3, 7, 0x7E, 0x7F}, Format{"h.e5m2", 2, 15, 0x7B, 0x7F}}) {
        std::string m = std::to_string(f.mantissa);
        // Scaled so that the smallest subnormal is 1: below 2^(m+1) such a number rounds to an
        // integer by adding and taking away; above, the float's own mantissa is cut.
        int shift = 23 - f.mantissa;
        add(lib, "i16", f.name, "float %a",
            "  %b = bitcast float %a to i32\n"
            "  %s = lshr i32 %b, 24\n  %sign = and i32 %s, 128\n"
            "  %m = and i32 %b, 2147483647\n"
            "  %abs = bitcast i32 %m to float\n"
            // normal: round the mantissa to nearest even, rebias
            "  %k = lshr i32 %m, " +
                std::to_string(shift) +
                "\n  %lsb = and i32 %k, 1\n"
                "  %bias0 = add i32 %lsb, " +
                std::to_string((1 << (shift - 1)) - 1) +
                "\n"
                "  %sum = add i32 %m, %bias0\n  %cut = lshr i32 %sum, " +
                std::to_string(shift) +
                "\n"
                "  %normal = sub i32 %cut, " +
                std::to_string((127 - f.bias) << f.mantissa) +
                "\n"
                // subnormal: |a| / smallest, rounded to an integer
                "  %scaled = fmul float %abs, " +
                std::to_string(1 << (f.bias - 1 + f.mantissa)) +
                ".0\n"
                "  %even = call float @llvm.roundeven.f32(float %scaled)\n"
                "  %sub = call i32 @llvm.fptoui.sat.i32.f32(float %even)\n"
                "  %small = icmp ult i32 %m, " +
                std::to_string((127 - f.bias + 1) << 23) +
                "\n"
                "  %v = select i1 %small, i32 %sub, i32 %normal\n"
                "  %over = icmp ugt i32 %v, " +
                std::to_string(f.largest) +
                "\n"
                "  %w = select i1 %over, i32 " +
                std::to_string(f.largest) +
                ", i32 %v\n"
                "  %nan = fcmp uno float %a, 0.0\n"
                "  %n = or i32 %w, %sign\n  %r = select i1 %nan, i32 " +
                std::to_string(f.nan) +
                ", i32 %n\n"
                "  %t = trunc i32 %r to i16\n  ret i16 %t\n");
    }
    lib.emplace("llvm.roundeven.f32", "declare float @llvm.roundeven.f32(float)\n");
    lib.emplace("llvm.fptoui.sat.i32.f32", "declare i32 @llvm.fptoui.sat.i32.f32(float)\n");
    // e5m2 is the high byte of a half.
    add(lib, "float", "h.e5m2.float", "i16 %a",
        "  %h = shl i16 %a, 8\n  %x = bitcast i16 %h to half\n  %f = fpext half %x to float\n  ret "
        "float %f\n");
    add(lib, "float", "h.e4m3.float", "i16 %a", R"(
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

// async.cc says what the bits are.
void barriers(Library &lib)
{
    add(lib, "i64", "h.mbarrier", "ptr %at, i64 %arrivals, i64 %bytes, i64 %drop", R"(
  %s = load i64, ptr %at, align 8
  %expected = and i64 %s, 1048575
  %e = sub i64 %expected, %drop
  %p0 = lshr i64 %s, 20
  %p1 = sub i64 %p0, %arrivals
  %p = and i64 %p1, 1048575
  %t0 = lshr i64 %s, 40
  %t1 = add i64 %t0, %bytes
  %t = and i64 %t1, 4194303
  %phase = and i64 %s, -9223372036854775808
  %both = or i64 %p, %t
  %over = icmp eq i64 %both, 0
  %next = xor i64 %phase, -9223372036854775808
  %ph = select i1 %over, i64 %next, i64 %phase
  %left = select i1 %over, i64 %e, i64 %p
  %a = shl i64 %left, 20
  %b = shl i64 %t, 40
  %x = or i64 %e, %a
  %y = or i64 %x, %b
  %z = or i64 %y, %ph
  store i64 %z, ptr %at, align 8
  ret i64 %s
)");
}

void functions(Library &lib)
{
    for (auto [name, symbol] : {std::pair{"h.ex2", "exp2f"},
                                {"h.lg2", "log2f"},
                                {"h.sin", "sinf"},
                                {"h.cos", "cosf"},
                                {"h.tanh", "tanhf"}}) {
        lib.emplace(symbol,
                    join("declare float @", symbol, "(float) nounwind willreturn memory(none)\n"));
        add(lib, "float", name, "float %a",
            join("  %r = call float @", symbol, "(float %a)\n  ret float %r\n"));
    }
}

const Library &library()
{
    static const Library *lib = [] {
        auto *made = new Library;
        bit_fields(*made);
        permutes(*made);
        directed(*made);
        halves(*made);
        fp8(*made);
        functions(*made);
        barriers(*made);
        return made;
    }();
    return *lib;
}

}  // namespace

Result<std::string> prelude(const std::set<std::string, std::less<>> &names,
                            std::set<std::string, std::less<>> &declarations)
{
    std::string text;
    std::set<std::string, std::less<>> done;
    std::deque<std::string> todo(names.begin(), names.end());
    while (!todo.empty()) {
        std::string name = todo.front();
        todo.pop_front();
        if (!done.insert(name).second) continue;
        auto found = library().find(name);
        if (found == library().end())
            return error(ErrorKind::internal, "no prelude function %s", name.c_str());
        const std::string &body = found->second;
        if (body.starts_with("declare")) {
            declarations.insert(body.substr(0, body.size() - 1));
            continue;
        }
        text += body;
        // What it mentions in turn: @NAME after its own.
        for (size_t at = body.find('@', body.find(name) + name.size()); at != body.npos;
             at = body.find('@', at + 1)) {
            size_t end = body.find_first_of("(), \n", at);
            std::string used = body.substr(at + 1, end - at - 1);
            if (library().contains(used)) todo.push_back(used);
        }
    }
    return text;
}

}  // namespace rgpu::softgpu::lower
