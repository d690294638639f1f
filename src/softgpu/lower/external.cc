// SPDX-License-Identifier: Apache-2.0
// Device functions that the driver supplies: what nvcc's output calls and defines nowhere.
#include "softgpu/lower/external.h"

#include "softgpu/lower/lower.h"

namespace rgpu::softgpu::lower {

namespace {

V word(Lower &l, const V &slot, const char *type) { return l.def("load ", type, ", ptr ", slot); }

void vprintf_(Lower &l, const std::vector<V> &returns, const std::vector<V> &p)
{
    V format = word(l, p.at(0), "ptr"), arguments = word(l, p.at(1), "ptr");
    V n = l.runtime("i32", "rt_vprintf", "ptr, ptr, ptr",
                    join("ptr ", l.block_state(), ", ptr ", format, ", ptr ", arguments),
                    "nounwind");
    if (!returns.empty()) l.emit("store i32 ", n, ", ptr ", returns[0]);
}

void malloc_(Lower &l, const std::vector<V> &returns, const std::vector<V> &p)
{
    V bytes = word(l, p.at(0), "i64");
    V block = l.runtime("ptr", "rt_malloc", "ptr, i64",
                        join("ptr ", l.block_state(), ", i64 ", bytes), "nounwind");
    if (!returns.empty()) l.emit("store ptr ", block, ", ptr ", returns[0]);
}

void free_(Lower &l, const std::vector<V> &, const std::vector<V> &p)
{
    V block = word(l, p.at(0), "ptr");
    l.runtime("void", "rt_free", "ptr, ptr", join("ptr ", l.block_state(), ", ptr ", block),
              "nounwind");
}

void assertfail(Lower &l, const std::vector<V> &, const std::vector<V> &p)
{
    V message = word(l, p.at(0), "ptr"), file = word(l, p.at(1), "ptr"),
      line = word(l, p.at(2), "i32"), function = word(l, p.at(3), "ptr"),
      size = word(l, p.at(4), "i64");
    l.name_thread();
    l.runtime("void", "rt_assertfail", "ptr, ptr, ptr, i32, ptr, i64",
              join("ptr ", l.block_state(), ", ptr ", message, ", ptr ", file, ", i32 ", line,
                   ", ptr ", function, ", i64 ", size),
              "noreturn nounwind cold");
    l.unreachable();
    l.place_after_terminator(l.block());
}

// The handle is the value's address (driver/graph/condition.h).
void set_conditional(Lower &l, const std::vector<V> &, const std::vector<V> &p)
{
    V handle = word(l, p.at(0), "i64"), value = word(l, p.at(1), "i32");
    V address = l.def("inttoptr i64 ", handle, " to ptr");
    l.emit("store i32 ", value, ", ptr ", address);
}

const External kExternals[] = {
    {"vprintf", vprintf_},
    {"malloc", malloc_},
    {"free", free_},
    {"__assertfail", assertfail},
    {"cudaGraphSetConditional", set_conditional},
};

}  // namespace

const External *find_external(std::string_view name)
{
    for (const External &e : kExternals)
        if (e.name == name) return &e;
    return nullptr;
}

}  // namespace rgpu::softgpu::lower
