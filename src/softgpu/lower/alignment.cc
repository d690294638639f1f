// SPDX-License-Identifier: Apache-2.0
// Misaligned accesses end a grid with MISALIGNED_ADDRESS. x86 carries them out, so the check need
// not come before the access: the low bits that should be zero are gathered over all of a thread's
// accesses (of a kernel of kind "block": of a block's), and looked at once, at the end. No loop
// gets a branch.
#include <bit>
#include <cstddef>

#include "softgpu/abi.h"
#include "softgpu/lower/lower.h"

namespace rgpu::softgpu::lower {

// The low bits of the memory operand's address, in 32 bits; nothing where it is known to be
// aligned.
V Lower::low_address(const Operand &o, Space space, unsigned bytes)
{
    const unsigned log = static_cast<unsigned>(std::countr_zero(bytes));
    const auto offset = static_cast<uint32_t>(o.value);
    auto constant = [&](uint32_t v) { return v % bytes ? std::to_string(v % bytes) : V{}; };
    if (!o.count) return constant(offset);
    const Operand &base = child(o, 0);
    V low;
    if (base.kind == Operand::reg) {
        const Congruence &c = congruences_[base.index];
        if (c.seen && c.log >= log) {
            if (c.root == Congruence::kNoRoot) return constant(c.addend + offset);
            V at = parameters();
            V name = join("pl.", std::to_string(c.root));
            V from = entry(join(name, ".at"),
                           join("getelementptr i8, ptr ", at, ", i64 ", std::to_string(c.root)));
            low = entry(name, join("load i32, ptr ", from, ", align 1, !invariant.load !0"));
            return def("add i32 ", low, ", ", std::to_string((c.addend + offset) % bytes));
        }
        const unsigned width = register_type(base).total();
        if (space != Space::shared && pointer_rank_[base.index])
            low = def("ptrtoint ptr ", pointer(base), " to i64");
        else
            low = read(base, Type{Type::bits, static_cast<uint16_t>(width), 1});
        low = resize(low, width, 32, false);
    } else {
        const ptx::Variable *v = variable(base);
        if (!v || v->space == Space::param) return {};
        if (v->space == Space::shared)
            return constant(shared_offset(*v) + static_cast<uint32_t>(base.value) + offset);
        if (v->align >= bytes) return constant(static_cast<uint32_t>(base.value) + offset);
        low = resize(def("ptrtoint ptr ", pointer(base), " to i64"), 64, 32, false);
    }
    return offset ? def("add i32 ", low, ", ", std::to_string(offset)) : low;
}

void Lower::check_alignment(const Operand &o, Space space, unsigned bytes)
{
    if (bytes < 2 || space == Space::param || o.kind != Operand::address ||
        !std::has_single_bit(bytes))
        return;
    V low = low_address(o, space, bytes);
    if (low.empty()) return;
    entry("misaligned", "alloca i32\n  store i32 0, ptr %misaligned");
    V wrong = def("and i32 ", low, ", ", bytes - 1);
    emit("store i32 ", def("or i32 ", def("load i32, ptr %misaligned"), ", ", wrong),
         ", ptr %misaligned");
}

// At a function's ends.
void Lower::report_alignment()
{
    if (!touches_memory_) return;
    entry("misaligned", "alloca i32\n  store i32 0, ptr %misaligned");
    V wrong = def("load i32, ptr %misaligned");
    if (!unit_.per_thread) {
        V at =
            def("getelementptr i8, ptr ", thread(), ", i64 ", std::to_string(sizeof(ThreadState)));
        return emit("store i32 ", def("or i32 ", def("load i32, ptr ", at), ", ", wrong), ", ptr ",
                    at);
    }
    std::string yes = block(), no = block();
    branch(def("icmp ne i32 ", wrong, ", 0"), yes, no);
    place(yes);
    runtime("void", "rt_misaligned", "ptr, i64", "ptr " + block_state() + ", i64 0",
            "noreturn nounwind cold");
    unreachable();
    place_after_terminator(no);
}

}  // namespace rgpu::softgpu::lower
