// SPDX-License-Identifier: Apache-2.0
// Bit fields, byte permutation, and the arithmetic of mbarrier objects, as LLVM IR.
#include "softgpu/lower/prelude_library.h"

namespace rgpu::softgpu::lower {

namespace {

// Position and length are taken from their low eight bits. {T} has {width} bits; {fit} and {tail}
// stand around a 32-bit value that is to be one of T.
constexpr std::string_view kField = R"(
  %p = and i32 %position, 255
  %n = and i32 %length, 255
  %end = add i32 %p, %n
  %over = icmp uge i32 %end, {width}
  %pin = icmp ult i32 %p, {width}
  %psafe = select i1 %pin, i32 %p, i32 0
  %pw = {fit}%psafe{tail}
  %down = lshr {T} %a, %pw
  %down2 = select i1 %pin, {T} %down, {T} 0
  ; Keep n bits: mask of min(n, width).
  %nin = icmp ult i32 %n, {width}
  %nsafe = select i1 %nin, i32 %n, i32 0
  %nw = {fit}%nsafe{tail}
  %bit = shl {T} 1, %nw
  %mask = sub {T} %bit, 1
  %mask2 = select i1 %nin, {T} %mask, {T} -1
  %field = and {T} %down2, %mask2
)";

constexpr std::string_view kUnsignedField = R"(  ret {T} %field
)";

// The sign is bit min(p+n-1, width-1) of a; above the field it is repeated.
constexpr std::string_view kSignedField = R"(
  %last = sub i32 %end, 1
  %lastc = select i1 %over, i32 {last}, i32 %last
  %none = icmp eq i32 %n, 0
  %lasts = select i1 %none, i32 0, i32 %lastc
  %lw = {fit}%lasts{tail}
  %sb = lshr {T} %a, %lw
  %sbit = and {T} %sb, 1
  %fill = sub {T} 0, %sbit
  ; Bits of the field that come from a: min(n, width-p).
  %avail = sub i32 {width}, %psafe
  %availc = select i1 %pin, i32 %avail, i32 0
  %less = icmp ult i32 %n, %availc
  %have = select i1 %less, i32 %n, i32 %availc
  %hin = icmp ult i32 %have, {width}
  %hsafe = select i1 %hin, i32 %have, i32 0
  %hw = {fit}%hsafe{tail}
  %hbit = shl {T} 1, %hw
  %hmask = sub {T} %hbit, 1
  %hmask2 = select i1 %hin, {T} %hmask, {T} -1
  %above = xor {T} %hmask2, -1
  %high = and {T} %fill, %above
  %low = and {T} %down2, %hmask2
  %both = or {T} %high, %low
  %r = select i1 %none, {T} 0, {T} %both
  ret {T} %r
)";

constexpr std::string_view kInsert = R"(
  %p = and i32 %position, 255
  %n = and i32 %length, 255
  %pin = icmp ult i32 %p, {width}
  %psafe = select i1 %pin, i32 %p, i32 0
  %pw = {fit}%psafe{tail}
  %nin = icmp ult i32 %n, {width}
  %nsafe = select i1 %nin, i32 %n, i32 0
  %nw = {fit}%nsafe{tail}
  %bit = shl {T} 1, %nw
  %ones = sub {T} %bit, 1
  %ones2 = select i1 %nin, {T} %ones, {T} -1
  %mask0 = shl {T} %ones2, %pw
  %mask = select i1 %pin, {T} %mask0, {T} 0
  %up = shl {T} %a, %pw
  %in = and {T} %up, %mask
  %inverse = xor {T} %mask, -1
  %out = and {T} %b, %inverse
  %r = or {T} %in, %out
  ret {T} %r
)";

// The n-th set bit from `base`, upwards for n > 0, downwards for n < 0; n = 0: base itself, if set.
constexpr std::string_view kNthSet = R"(
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
)";

}  // namespace

void add_bit_fields(PreludeLibrary &lib)
{
    for (unsigned w : {32u, 64u}) {
        const std::string width = std::to_string(w), type = "i" + width;
        auto with_width = [&](std::string_view text) {
            return fill(text, {{"T", type},
                               {"width", width},
                               {"last", std::to_string(w - 1)},
                               {"fit", w == 64 ? "zext i32 " : "add i32 0, "},
                               {"tail", w == 64 ? " to i64" : ""}});
        };
        const std::string of_one = with_width("{T} %a, i32 %position, i32 %length");
        lib.define(type, "h.bfe.u" + width, of_one,
                   with_width(kField) + with_width(kUnsignedField));
        lib.define(type, "h.bfe.s" + width, of_one, with_width(kField) + with_width(kSignedField));
        lib.define(type, "h.bfi." + width, with_width("{T} %a, {T} %b, i32 %position, i32 %length"),
                   with_width(kInsert));
    }
    lib.define("i32", "h.fns", "i32 %mask, i32 %base, i32 %offset", kNthSet);
}

namespace {

// Byte {i} of prmt's result: selector nibble {i} picks one of eight bytes, its bit 3 repeats that
// byte's sign.
constexpr std::string_view kPermutedByte = R"(
  %s{i} = lshr i32 %s, {nibble}
  %k{i} = and i32 %s{i}, 7
  %m{i} = shl i32 %k{i}, 3
  %mw{i} = zext i32 %m{i} to i64
  %d{i} = lshr i64 %all, %mw{i}
  %t{i} = trunc i64 %d{i} to i8
  %g{i} = ashr i8 %t{i}, 7
  %f{i} = and i32 %s{i}, 8
  %q{i} = icmp ne i32 %f{i}, 0
  %y{i} = select i1 %q{i}, i8 %g{i}, i8 %t{i}
  %z{i} = zext i8 %y{i} to i32
  %x{i} = shl i32 %z{i}, {byte}
  %r{i} = or i32 {before}, %x{i}
)";

// prmt's named modes: a selector for each value of s & 3.
constexpr std::string_view kPermuteMode = R"(
  %k = and i32 %s, 3
  %c1 = icmp eq i32 %k, 1
  %v1 = select i1 %c1, i32 {1}, i32 {0}
  %c2 = icmp eq i32 %k, 2
  %v2 = select i1 %c2, i32 {2}, i32 %v1
  %c3 = icmp eq i32 %k, 3
  %v3 = select i1 %c3, i32 {3}, i32 %v2
  %r = call i32 @h.prmt(i32 %a, i32 %b, i32 %v3)
  ret i32 %r
)";

}  // namespace

void add_permutes(PreludeLibrary &lib)
{
    std::string body = R"(
  %wa = zext i32 %a to i64
  %wb = zext i32 %b to i64
  %wb2 = shl i64 %wb, 32
  %all = or i64 %wa, %wb2
)";
    std::string before = "0";
    for (int i = 0; i < 4; ++i) {
        const std::string n = std::to_string(i);
        body += fill(kPermutedByte, {{"i", n},
                                     {"nibble", std::to_string(4 * i)},
                                     {"byte", std::to_string(8 * i)},
                                     {"before", before}});
        before = "%r" + n;
    }
    lib.define("i32", "h.prmt", "i32 %a, i32 %b, i32 %s", body + "  ret i32 %r3\n");
    struct Mode {
        const char *name;
        unsigned selectors[4];
    };
    static constexpr Mode modes[] = {
        {"f4e", {0x3210, 0x4321, 0x5432, 0x6543}}, {"b4e", {0x5670, 0x6701, 0x7012, 0x0123}},
        {"rc8", {0x0000, 0x1111, 0x2222, 0x3333}}, {"ecl", {0x3210, 0x3211, 0x3222, 0x3333}},
        {"ecr", {0x0000, 0x1110, 0x2210, 0x3210}}, {"rc16", {0x1010, 0x3232, 0x1010, 0x3232}}};
    for (const Mode &m : modes)
        lib.define("i32", std::string("h.prmt.") + m.name, "i32 %a, i32 %b, i32 %s",
                   fill(kPermuteMode, {{"0", std::to_string(m.selectors[0])},
                                       {"1", std::to_string(m.selectors[1])},
                                       {"2", std::to_string(m.selectors[2])},
                                       {"3", std::to_string(m.selectors[3])}}));
}

// async.cc says what the bits are.
void add_barriers(PreludeLibrary &lib)
{
    lib.define("i64", "h.mbarrier", "ptr %at, i64 %arrivals, i64 %bytes, i64 %drop", R"(
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

}  // namespace rgpu::softgpu::lower
