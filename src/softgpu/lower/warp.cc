// SPDX-License-Identifier: Apache-2.0
// Barriers and what the lanes of a warp do together.
#include "softgpu/abi.h"
#include "softgpu/lower/lower.h"

namespace rgpu::softgpu::lower {

namespace {

V number(auto value) { return std::to_string(static_cast<unsigned>(value)); }

// bar.sync id [, count]
void bar_sync(Lower &l)
{
    V id = l.operands() > 0 ? l.get(0, kU32) : "0", count = l.operands() > 1 ? l.get(1, kU32) : "0";
    if (l.is_cut()) {
        const WarpOp op = l.has("arrive") ? WarpOp::bar_arrive : WarpOp::bar_sync;
        const bool all = l.operands() < 2 && id == "0" && op == WarpOp::bar_sync;
        unsigned detail = (l.is_level() ? kLevel : 0) | (all ? kWholeBlock : 0);
        l.meet({.op = op, .detail = detail, .b = all ? V{} : id, .c = all ? V{} : count});
        return;
    }
    const char *name = l.has("arrive") ? "rt_bar_arrive" : "rt_bar_sync";
    l.runtime("void", name, "ptr, i32, i32",
              join("ptr ", l.thread(), ", i32 ", id, ", i32 ", count));
}

// bar.red.op d, id [, count], p
void bar_red(Lower &l)
{
    V id = l.get(1, kU32), count = l.operands() > 3 ? l.get(2, kU32) : "0";
    V p = l.def("zext i1 ", l.get(l.operands() - 1, kPred), " to i32");
    BarRed op = l.has("popc") ? BarRed::popc : l.has("and") ? BarRed::and_ : BarRed::or_;
    V r = l.is_cut() ? l.meet({WarpOp::bar_red, static_cast<unsigned>(op), {}, p, id, count})
                     : l.runtime("i32", "rt_bar_red", "ptr, i32, i32, i32, i32",
                                 join("ptr ", l.thread(), ", i32 ", id, ", i32 ", count, ", i32 ",
                                      number(op), ", i32 ", p));
    if (op == BarRed::popc)
        l.set(r, kU32);
    else
        l.set(l.def("icmp ne i32 ", r, ", 0"), kPred);
}

void nothing(Lower &) {}

void cluster_wait(Lower &l)
{
    if (l.is_cut()) {
        l.meet({.op = WarpOp::bar_sync, .detail = l.is_level() ? kLevel : 0, .b = "15", .c = "0"});
        return;
    }
    l.runtime("void", "rt_bar_sync", "ptr, i32, i32", join("ptr ", l.thread(), ", i32 15, i32 0"));
}

void bar_warp(Lower &l)
{
    if (l.is_cut()) {
        l.meet({.op = WarpOp::sync, .mask = l.get(0, kU32)});
        return;
    }
    l.runtime("void", "rt_bar_warp_sync", "ptr, i32, i32",
              join("ptr ", l.thread(), ", i32 ", l.site(), ", i32 ", l.get(0, kU32)));
}

// Destination d, or d|p.
void results(Lower &l, const V &value, Type t, const V &flag)
{
    const Operand &d = l.operand(0);
    if (d.kind != Operand::pair) return l.write(d, value, t);
    l.write(l.child(d, 0), value, t);
    l.write(l.child(d, 1), l.def("icmp ne i32 ", l.def("load i32, ptr ", flag), ", 0"), kPred);
}

// The older forms without .sync work on the lanes that are together.
V mask_of(Lower &l, unsigned operand)
{
    if (l.has("sync")) return l.get(operand, kU32);
    return l.runtime("i32", "rt_activemask", "ptr, i32",
                     join("ptr ", l.thread(), ", i32 ", l.site()));
}

void shfl(Lower &l)
{
    Shfl op = l.has("up")     ? Shfl::up
              : l.has("down") ? Shfl::down
              : l.has("bfly") ? Shfl::bfly
                              : Shfl::idx;
    V a = l.get(1, kB32), b = l.get(2, kU32), c = l.get(3, kU32), mask = mask_of(l, 4);
    V valid = l.slot("i32");
    if (l.is_cut())
        return results(l, l.meet({WarpOp::shfl, static_cast<unsigned>(op), mask, a, b, c, valid}),
                       kB32, valid);
    // PTX keeps the clamp in bits 0 to 4 and the segment mask in bits 8 to 12, as the engine wants
    // them.
    V r = l.runtime("i32", "rt_shfl", "ptr, i32, i32, i32, i32, i32, i32, ptr",
                    join("ptr ", l.thread(), ", i32 ", l.site(), ", i32 ", number(op), ", i32 ",
                         mask, ", i32 ", a, ", i32 ", b, ", i32 ", c, ", ptr ", valid));
    results(l, r, kB32, valid);
}

void vote(Lower &l)
{
    Vote op = l.has("all")   ? Vote::all
              : l.has("any") ? Vote::any
              : l.has("uni") ? Vote::uni
                             : Vote::ballot;
    V p = l.def("zext i1 ", l.get(1, kPred), " to i32"), mask = mask_of(l, 2);
    V r = l.is_cut() ? l.meet({WarpOp::vote, static_cast<unsigned>(op), mask, p})
                     : l.runtime("i32", "rt_vote", "ptr, i32, i32, i32, i32",
                                 join("ptr ", l.thread(), ", i32 ", l.site(), ", i32 ", number(op),
                                      ", i32 ", mask, ", i32 ", p));
    if (op == Vote::ballot)
        l.set(r, kB32);
    else
        l.set(l.def("icmp ne i32 ", r, ", 0"), kPred);
}

void match(Lower &l)
{
    Type t = l.type();
    V a = l.resize(l.get(1, t), t.width, 64, false), mask = l.get(2, kU32);
    if (l.is_cut()) {
        const bool any = l.has("any");
        V flag = any ? V{} : l.slot("i32");
        Lower::Meet m{any ? WarpOp::match_any : WarpOp::match_all, 0, mask, {}, {}, {}, flag};
        m.wide = a;
        V r = l.meet(m);
        return any ? l.set(r, kB32) : results(l, r, kB32, flag);
    }
    std::string arguments =
        join("ptr ", l.thread(), ", i32 ", l.site(), ", i32 ", mask, ", i64 ", a);
    if (l.has("any"))
        return l.set(l.runtime("i32", "rt_match_any", "ptr, i32, i32, i64", arguments), kB32);
    V flag = l.slot("i32");
    V r = l.runtime("i32", "rt_match_all", "ptr, i32, i32, i64, ptr",
                    join(arguments, ", ptr ", flag));
    results(l, r, kB32, flag);
}

void activemask(Lower &l)
{
    l.set(
        l.runtime("i32", "rt_activemask", "ptr, i32", join("ptr ", l.thread(), ", i32 ", l.site())),
        kB32);
}

void redux(Lower &l)
{
    bool is_signed = l.type().is_signed();
    Redux op = l.has("add")   ? Redux::add
               : l.has("and") ? Redux::and_
               : l.has("or")  ? Redux::or_
               : l.has("xor") ? Redux::xor_
               : l.has("min") ? (is_signed ? Redux::min_s : Redux::min_u)
                              : (is_signed ? Redux::max_s : Redux::max_u);
    V a = l.get(1, kB32), mask = l.get(2, kU32);
    if (l.is_cut()) return l.set(l.meet({WarpOp::redux, static_cast<unsigned>(op), mask, a}), kB32);
    l.set(l.runtime("i32", "rt_redux", "ptr, i32, i32, i32, i32",
                    join("ptr ", l.thread(), ", i32 ", l.site(), ", i32 ", number(op), ", i32 ",
                         mask, ", i32 ", a)),
          kB32);
}

void elect(Lower &l)
{
    V mask = l.get(1, kU32), flag = l.slot("i32");
    if (l.is_cut())
        return results(l, l.meet({.op = WarpOp::elect, .mask = mask, .flag = flag}), kB32, flag);
    V r = l.runtime("i32", "rt_elect", "ptr, i32, i32, ptr",
                    join("ptr ", l.thread(), ", i32 ", l.site(), ", i32 ", mask, ", ptr ", flag));
    results(l, r, kB32, flag);
}

constexpr uint8_t kMeeting = kThread | kMeets;

const Row kRows[] = {
    {"bar", "?cta sync|arrive", 1, 2, bar_sync, kMeeting},
    {"barrier", "?cta sync|arrive ?aligned", 1, 2, bar_sync, kMeeting},
    {"bar", "?cta red popc u32", 3, 4, bar_red, kMeeting},
    {"bar", "?cta red and|or pred", 3, 4, bar_red, kMeeting},
    {"barrier", "?cta red popc ?aligned u32", 3, 4, bar_red, kMeeting},
    {"barrier", "?cta red and|or ?aligned pred", 3, 4, bar_red, kMeeting},
    {"bar", "warp sync", 1, 1, bar_warp, kMeeting},
    {"shfl", "sync up|down|bfly|idx b32", 5, 5, shfl, kMeeting},
    {"shfl", "up|down|bfly|idx b32", 4, 4, shfl, kThread},
    {"vote", "all|any|uni pred", 2, 2, vote, kThread},
    {"vote", "ballot b32", 2, 2, vote, kThread},
    // A cluster is one block: who waits for the cluster waits for the block, at a barrier that nvcc
    // leaves free.
    {"barrier", "cluster arrive ?release|relaxed ?aligned", 0, 0, nothing},
    {"barrier", "cluster wait ?acquire ?aligned", 0, 0, cluster_wait, kMeeting},
    {"vote", "~sync all|any|uni pred", 3, 3, vote, kMeeting},
    {"vote", "~sync ballot b32", 3, 3, vote, kMeeting},
    {"match", "any sync b32|b64", 3, 3, match, kMeeting},
    {"match", "all sync b32|b64", 3, 3, match, kMeeting},
    {"activemask", "b32", 1, 1, activemask, kThread},
    {"redux", "sync add|min|max u32|s32", 3, 3, redux, kMeeting},
    {"redux", "sync and|or|xor b32", 3, 3, redux, kMeeting},
    {"elect", "sync", 2, 2, elect, kMeeting},
};

}  // namespace

std::span<const Row> warp_rows() { return kRows; }

}  // namespace rgpu::softgpu::lower
