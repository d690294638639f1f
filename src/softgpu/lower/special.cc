// SPDX-License-Identifier: Apache-2.0
// Special registers: %tid, %clock and so on.
#include <algorithm>

#include "softgpu/lower/special.h"

#include "softgpu/lower/lower.h"

namespace rgpu::softgpu::lower {

namespace {

V lanemask(Lower &l, const char *how)
{
    // All masks follow from the lane's bit.
    V lane = l.state("lane"), bit = l.def("shl i32 1, ", lane);
    V below = l.def("sub i32 ", bit, ", 1");
    std::string_view h = how;
    if (h == "eq") return bit;
    if (h == "lt") return below;
    V up_to = l.def("or i32 ", below, ", ", bit);
    if (h == "le") return up_to;
    if (h == "gt") return l.def("xor i32 ", up_to, ", -1");
    return l.def("xor i32 ", below, ", -1");
}

V product(Lower &l, const char *a, const char *b, const char *c)
{
    V ab = l.def("mul i32 ", l.state(a), ", ", l.state(b));
    return l.def("mul i32 ", ab, ", ", l.state(c));
}

V warps(Lower &l)
{
    V threads = product(l, "ntid.x", "ntid.y", "ntid.z");
    V rounded = l.def("add i32 ", threads, ", 31");
    return l.def("lshr i32 ", rounded, ", 5");
}

V clock(Lower &l) { return l.runtime("i64", "rt_clock", "", "", "nounwind"); }
V globaltimer(Lower &l) { return l.runtime("i64", "rt_globaltimer", "", "", "nounwind"); }
V low(Lower &l, const V &v) { return l.def("trunc i64 ", v, " to i32"); }
V high(Lower &l, const V &v) { return low(l, l.def("lshr i64 ", v, ", 32")); }

#define STATE(ptx, field) \
    { \
        ptx, kU32, [](Lower &l) { return l.state(field); } \
    }
#define CONSTANT(ptx, value) \
    { \
        ptx, kU32, [](Lower &) -> V { return #value; } \
    }

// What NVIDIA's headers may use of a block's shared memory without asking (cooperative groups'
// tiles of several warps).
#define RESERVED(ptx, plus) \
    { \
        ptx, kU32, [](Lower &l) -> V { \
            return std::to_string(l.unit().shared.at(kReservedSharedName) + (plus)); \
        } \
    }

// A cluster is one block here.
const Special kSpecials[] = {
    STATE("%tid.x", "tid.x"),
    STATE("%tid.y", "tid.y"),
    STATE("%tid.z", "tid.z"),
    STATE("%ntid.x", "ntid.x"),
    STATE("%ntid.y", "ntid.y"),
    STATE("%ntid.z", "ntid.z"),
    STATE("%ctaid.x", "ctaid.x"),
    STATE("%ctaid.y", "ctaid.y"),
    STATE("%ctaid.z", "ctaid.z"),
    STATE("%nctaid.x", "nctaid.x"),
    STATE("%nctaid.y", "nctaid.y"),
    STATE("%nctaid.z", "nctaid.z"),
    STATE("%laneid", "lane"),
    STATE("%warpid", "warp"),
    STATE("%smid", "smid"),
    STATE("%nsmid", "nsmid"),
    STATE("%dynamic_smem_size", "dynamic"),
    STATE("%total_smem_size", "total"),
    STATE("%aggr_smem_size", "total"),
    STATE("%clusterid.x", "ctaid.x"),
    STATE("%clusterid.y", "ctaid.y"),
    STATE("%clusterid.z", "ctaid.z"),
    STATE("%nclusterid.x", "nctaid.x"),
    STATE("%nclusterid.y", "nctaid.y"),
    STATE("%nclusterid.z", "nctaid.z"),
    CONSTANT("%cluster_ctaid.x", 0),
    CONSTANT("%cluster_ctaid.y", 0),
    CONSTANT("%cluster_ctaid.z", 0),
    CONSTANT("%cluster_nctaid.x", 1),
    CONSTANT("%cluster_nctaid.y", 1),
    CONSTANT("%cluster_nctaid.z", 1),
    CONSTANT("%cluster_ctarank", 0),
    CONSTANT("%cluster_nctarank", 1),
    RESERVED("%reserved_smem_offset_begin", 0),
    RESERVED("%reserved_smem_offset_0", 0),
    RESERVED("%reserved_smem_offset_1", 0),
    RESERVED("%reserved_smem_offset_end", kReservedShared),
    RESERVED("%reserved_smem_offset_cap", kReservedShared),
    CONSTANT("%tid.w", 0),
    CONSTANT("%ntid.w", 0),
    CONSTANT("%ctaid.w", 0),
    CONSTANT("%nctaid.w", 0),
    {"%is_explicit_cluster", kPred, [](Lower &) -> V { return "false"; }},
    {"%nwarpid", kU32, warps},
    {"%gridid", kU64, [](Lower &l) { return l.state("gridid"); }},
    {"%lanemask_eq", kU32, [](Lower &l) { return lanemask(l, "eq"); }},
    {"%lanemask_lt", kU32, [](Lower &l) { return lanemask(l, "lt"); }},
    {"%lanemask_le", kU32, [](Lower &l) { return lanemask(l, "le"); }},
    {"%lanemask_gt", kU32, [](Lower &l) { return lanemask(l, "gt"); }},
    {"%lanemask_ge", kU32, [](Lower &l) { return lanemask(l, "ge"); }},
    {"%clock", kU32, [](Lower &l) { return low(l, clock(l)); }},
    {"%clock_hi", kU32, [](Lower &l) { return high(l, clock(l)); }},
    {"%clock64", kU64, clock},
    {"%globaltimer", kU64, globaltimer},
    {"%globaltimer_lo", kU32, [](Lower &l) { return low(l, globaltimer(l)); }},
    {"%globaltimer_hi", kU32, [](Lower &l) { return high(l, globaltimer(l)); }},
    // The grid's workspace, for cooperative groups.
    {"%envreg1", kU32, [](Lower &l) { return high(l, l.state("workspace")); }},
    {"%envreg2", kU32, [](Lower &l) { return low(l, l.state("workspace")); }},
};

}  // namespace

const Special *find_special(std::string_view name)
{
    for (const Special &s : kSpecials)
        if (s.name == name) return &s;
    return nullptr;
}

V Lower::special(const Operand &o, Type t)
{
    const Special *s = find_special(o.name);
    if (!s) {
        fail("unknown register " + std::string(o.name));
        return "0";
    }
    V v = s->value(*this);
    return cast(resize(v, s->type.total(), t.total(), t.is_signed()), ll_int(t.total()), ll(t));
}

}  // namespace rgpu::softgpu::lower
