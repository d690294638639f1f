// SPDX-License-Identifier: Apache-2.0
// Asynchronous copies, done at once, and mbarrier objects.
//
// An mbarrier is a 64-bit word in shared memory. Ours holds: bits 0-19 the arrivals of a phase,
// 20-39 those still to come, 40-61 the bytes that transactions still bring, 63 the phase's parity.
// One OS thread runs a block, so plain loads and stores do.
#include "softgpu/lower/memory.h"

namespace rgpu::softgpu::lower {

namespace {

void nothing(Lower &) {}

V to_i64(Lower &l, unsigned operand) { return l.resize(l.get(operand, kB32), 32, 64, false); }

// cp.async [dst], [src], size [, source size or a predicate to ignore the source] [, policy]
void copy(Lower &l)
{
    if (l.operand(2).kind != Operand::integer) return l.fail("the size must be a constant");
    uint64_t size = l.operand(2).value;
    if (size != 4 && size != 8 && size != 16) return l.fail("4, 8 or 16 bytes are copied");
    l.check_alignment(l.operand(0), Space::shared, static_cast<unsigned>(size));
    l.check_alignment(l.operand(1), Space::global, static_cast<unsigned>(size));
    V to = l.address(l.operand(0), Space::shared), from = l.address(l.operand(1), Space::global);
    std::string bytes = std::to_string(size), type = ll_int(static_cast<unsigned>(size * 8));
    V some;  // how many are read; the rest is zero
    if (l.operands() > 3) {
        const Operand &o = l.operand(3);
        bool predicate = o.kind == Operand::reg && l.register_type(o).kind == Type::pred;
        bool policy = l.has("L2::cache_hint") && l.operands() == 4;
        if (predicate)
            some = l.select(l.read(o, kPred), kB64, "0", bytes);
        else if (!policy)
            some = to_i64(l, 3);
    }
    if (some.empty()) {
        V v = l.def("load ", type, ", ptr ", from, ", align ", bytes);
        return l.emit("store ", type, " ", v, ", ptr ", to, ", align ", bytes);
    }
    l.emit("store ", type, " 0, ptr ", to, ", align ", bytes);
    l.intrinsic("void", "llvm.memcpy.p0.p0.i64",
                {{"ptr", to}, {"ptr", from}, {"i64", some}, {"i1", "false"}});
}

V barrier_address(Lower &l, unsigned operand)
{
    // Generic or shared; a 32-bit register can only hold a shared one.
    Space space = l.has("shared") || l.has("shared::cta") || l.has("shared::cluster")
                      ? Space::shared
                      : Space::none;
    l.check_alignment(l.operand(operand), space, 8);
    return l.address(l.operand(operand), space);
}

// Returns the state before.
V change(Lower &l, const V &barrier, const V &arrivals, const V &bytes, const V &drop)
{
    return l.helper("i64", "h.mbarrier",
                    join("ptr ", barrier, ", i64 ", arrivals, ", i64 ", bytes, ", i64 ", drop));
}

void init(Lower &l)
{
    V n = to_i64(l, 1);
    V state = l.def("or i64 ", n, ", ", l.def("shl i64 ", n, ", 20"));
    l.emit("store i64 ", state, ", ptr ", barrier_address(l, 0), ", align 8");
}

void invalidate(Lower &l) { l.emit("store i64 0, ptr ", barrier_address(l, 0), ", align 8"); }

// arrive [.expect_tx] [.noComplete]: state, [barrier] [, bytes or count]; the state may be left
// out.
void arrive(Lower &l)
{
    bool has_state = l.operand(0).kind != Operand::address;
    unsigned at = has_state ? 1 : 0;
    V barrier = barrier_address(l, at), more = l.operands() > at + 1 ? to_i64(l, at + 1) : "";
    bool bytes = l.has("expect_tx"),
         drop = l.form().row->opcode == "mbarrier" && l.has("arrive_drop");
    V count = bytes || more.empty() ? "1" : more;
    V before = change(l, barrier, count, bytes ? more : "0", drop ? count : "0");
    if (has_state) l.set(before, kB64);
}

void expect(Lower &l)
{
    V bytes = to_i64(l, 1);
    if (l.has("complete_tx")) bytes = l.def("sub i64 0, ", bytes);
    change(l, barrier_address(l, 0), "0", bytes, "0");
}

// p, [barrier], state or parity: is that phase over?
void test(Lower &l)
{
    V now = l.def("lshr i64 ", l.def("load i64, ptr ", barrier_address(l, 1), ", align 8"), ", 63");
    V then = l.has("parity") ? l.resize(l.get(2, kB32), 32, 64, false)
                             : l.def("lshr i64 ", l.get(2, kB64), ", 63");
    l.set(l.def("icmp ne i64 ", now, ", ", l.def("and i64 ", then, ", 1")), kPred);
    l.yield();
}

void pending(Lower &l)
{
    V count = l.def("and i64 ", l.def("lshr i64 ", l.get(1, kB64), ", 20"), ", 1048575");
    l.set(l.def("trunc i64 ", count, " to i32"), kB32);
}

// cp.async.bulk [dst], [src], size [, [barrier]]
void bulk(Lower &l)
{
    bool to_shared = l.form().modifiers[2].starts_with("shared");
    V to = l.address(l.operand(0), to_shared ? Space::shared : Space::global);
    V from =
        l.address(l.operand(1), to_shared && !l.has("shared::cta") ? Space::global : Space::shared);
    V bytes = to_i64(l, 2);
    l.intrinsic("void", "llvm.memcpy.p0.p0.i64",
                {{"ptr", to}, {"ptr", from}, {"i64", bytes}, {"i1", "false"}});
    if (l.has("mbarrier::complete_tx::bytes"))
        change(l, l.address(l.operand(3), Space::shared), "0", l.def("sub i64 0, ", bytes), "0");
}

#define SHARED "?shared|shared::cta|shared::cluster"

const Row kRows[] = {
    {"cp", "async ca|cg shared|shared::cta global ?L2::cache_hint ?$prefetch", 3, 5, copy},
    {"cp", "async commit_group", 0, 0, nothing},
    {"cp", "async wait_group", 1, 1, nothing},
    {"cp", "async wait_all", 0, 0, nothing},
    // The copies are over: with .noinc this is an arrival, without it adds one to come first.
    {"cp", "async mbarrier arrive noinc " SHARED " b64", 1, 1, arrive},
    {"cp", "async mbarrier arrive " SHARED " b64", 1, 1, nothing},
    {"cp",
     "async bulk shared::cluster|shared::cta global mbarrier::complete_tx::bytes ?L2::cache_hint",
     4, 5, bulk},
    {"cp", "async bulk global shared::cta bulk_group ?L2::cache_hint", 3, 4, bulk},
    {"cp", "async bulk commit_group", 0, 0, nothing},
    {"cp", "async bulk wait_group ?read", 1, 1, nothing},
    {"mbarrier", "init " SHARED " b64", 2, 2, init},
    {"mbarrier", "inval " SHARED " b64", 1, 1, invalidate},
    {"mbarrier",
     "arrive|arrive_drop ?expect_tx ?noComplete ?release|relaxed ?cta|cluster " SHARED " b64", 1, 3,
     arrive},
    {"mbarrier", "expect_tx|complete_tx ?relaxed ?cta|cluster " SHARED " b64", 2, 2, expect},
    {"mbarrier", "test_wait|try_wait ?parity ?acquire|relaxed ?cta|cluster " SHARED " b64", 3, 4,
     test, kSpins},
    {"mbarrier", "pending_count b64", 2, 2, pending},
};

}  // namespace

std::span<const Row> async_rows() { return kRows; }

}  // namespace rgpu::softgpu::lower
