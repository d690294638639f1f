// SPDX-License-Identifier: Apache-2.0
// What generated code reads of the thread's, the block's and the grid's state (abi.h).
#include <cstddef>

#include "softgpu/abi.h"
#include "softgpu/lower/lower.h"

namespace rgpu::softgpu::lower {

static_assert(offsetof(ThreadState, block) == 0 && offsetof(BlockState, grid) == 0,
              "block_state() and grid_state() rely on it");

V Lower::block_state()
{
    return entry("bs", join("load ptr, ptr ", thread(), ", align 8",
                            unit_.per_thread ? ", !invariant.load !0" : "",
                            ", !nonnull !0, !dereferenceable !5"));
}

V Lower::grid_state()
{
    return entry("gs", "load ptr, ptr " + block_state() +
                           ", align 8, !invariant.load !0, !nonnull !0, !dereferenceable !6");
}

V Lower::shared_base()
{
    V at = entry("sa", "getelementptr i8, ptr " + block_state() + ", i64 " +
                           std::to_string(offsetof(BlockState, shared)));
    return entry("sb", "load ptr, ptr " + at + ", align 8, !invariant.load !0");
}

V Lower::parameters()
{
    V field = entry("pa", "getelementptr i8, ptr " + grid_state() + ", i64 " +
                              std::to_string(offsetof(GridState, params)));
    return entry("params", join("load ptr, ptr ", field,
                                ", align 8, !invariant.load !0, !nonnull !0, !dereferenceable !7"));
}

V Lower::state(std::string_view name)
{
    enum Whose { of_thread, of_block, of_grid };
    struct Field {
        std::string_view name;
        Whose whose;
        size_t offset;
        unsigned bits;
    };
    static constexpr Field fields[] = {
        {"tid.x", of_thread, offsetof(ThreadState, tid_x), 32},
        {"tid.y", of_thread, offsetof(ThreadState, tid_y), 32},
        {"tid.z", of_thread, offsetof(ThreadState, tid_z), 32},
        {"lane", of_thread, offsetof(ThreadState, lane), 32},
        {"warp", of_thread, offsetof(ThreadState, warp), 32},
        {"ctaid.x", of_block, offsetof(BlockState, ctaid) + offsetof(Dim3, x), 32},
        {"ctaid.y", of_block, offsetof(BlockState, ctaid) + offsetof(Dim3, y), 32},
        {"ctaid.z", of_block, offsetof(BlockState, ctaid) + offsetof(Dim3, z), 32},
        {"smid", of_block, offsetof(BlockState, sm_id), 32},
        {"ntid.x", of_grid, offsetof(GridState, block) + offsetof(Dim3, x), 32},
        {"ntid.y", of_grid, offsetof(GridState, block) + offsetof(Dim3, y), 32},
        {"ntid.z", of_grid, offsetof(GridState, block) + offsetof(Dim3, z), 32},
        {"nctaid.x", of_grid, offsetof(GridState, grid) + offsetof(Dim3, x), 32},
        {"nctaid.y", of_grid, offsetof(GridState, grid) + offsetof(Dim3, y), 32},
        {"nctaid.z", of_grid, offsetof(GridState, grid) + offsetof(Dim3, z), 32},
        {"dynamic", of_grid, offsetof(GridState, dynamic_shared), 32},
        {"total", of_grid, offsetof(GridState, total_shared), 32},
        {"nsmid", of_grid, offsetof(GridState, sm_count), 32},
        {"gridid", of_grid, offsetof(GridState, grid_id), 64},
        {"workspace", of_grid, offsetof(GridState, workspace), 64},
    };
    for (const Field &f : fields) {
        if (f.name != name) continue;
        V base = f.whose == of_thread  ? thread()
                 : f.whose == of_block ? block_state()
                                       : grid_state();
        V at = entry(join("at.", name),
                     "getelementptr i8, ptr " + base + ", i64 " + std::to_string(f.offset));
        bool fixed = f.whose != of_thread || unit_.per_thread;
        return entry(join("is.", name), "load " + ll_int(f.bits) + ", ptr " + at + ", align " +
                                            std::to_string(f.bits / 8) +
                                            (fixed ? ", !invariant.load !0" : ""));
    }
    fail("no state " + std::string(name));
    return "0";
}

void Lower::name_thread()
{
    if (unit_.per_thread) return;
    const std::pair<const char *, size_t> fields[] = {{"tid.x", offsetof(BlockState, tid_x)},
                                                      {"tid.y", offsetof(BlockState, tid_y)},
                                                      {"tid.z", offsetof(BlockState, tid_z)}};
    for (auto [name, offset] : fields) {
        V value = state(name),
          at = def("getelementptr i8, ptr ", block_state(), ", i64 ", std::to_string(offset));
        emit("store i32 ", value, ", ptr ", at);
    }
    emit("store i32 1, ptr ", def("getelementptr i8, ptr ", block_state(), ", i64 ",
                                  std::to_string(offsetof(BlockState, named))));
}

}  // namespace rgpu::softgpu::lower
