// SPDX-License-Identifier: Apache-2.0
// Tensor core instructions. The work is done by the engine (exec/matrix.cc); here operands are put
// into memory.
#include <cstddef>

#include "softgpu/abi.h"
#include "softgpu/lower/lower.h"
#include "softgpu/lower/memory.h"

namespace rgpu::softgpu::lower {

namespace {

// m, n and k of "m16n8k16".
bool parse_shape(Lower &l, unsigned (&shape)[3])
{
    std::string_view text = l.form().starting("m");
    for (unsigned i = 0; i < l.form().count; ++i)
        if (l.form().modifiers[i].starts_with("m") &&
            l.form().modifiers[i].find('k') != std::string_view::npos)
            text = l.form().modifiers[i];
    unsigned *at = shape - 1;
    for (char c : text) {
        if (c >= '0' && c <= '9')
            *at = *at * 10 + static_cast<unsigned>(c - '0');
        else
            *++at = 0;
    }
    return at == shape + 2;
}

MatrixType matrix_type(std::string_view name)
{
    struct Name {
        std::string_view ptx;
        MatrixType type;
    };
    static constexpr Name names[] = {{"f16", MatrixType::f16},   {"bf16", MatrixType::bf16},
                                     {"tf32", MatrixType::tf32}, {"f32", MatrixType::f32},
                                     {"f64", MatrixType::f64},   {"s8", MatrixType::s8},
                                     {"u8", MatrixType::u8},     {"s32", MatrixType::s32},
                                     {"e4m3", MatrixType::e4m3}, {"e5m2", MatrixType::e5m2}};
    for (const Name &n : names)
        if (n.ptx == name) return n.type;
    return MatrixType::f32;
}

bool is_matrix_type(std::string_view m)
{
    for (std::string_view t :
         {"f16", "bf16", "tf32", "f32", "f64", "s8", "u8", "s32", "e4m3", "e5m2"})
        if (t == m) return true;
    return false;
}

std::vector<MatrixType> matrix_types(const Lower &l)
{
    std::vector<MatrixType> types;
    for (unsigned i = 0; i < l.form().count; ++i)
        if (is_matrix_type(l.form().modifiers[i]))
            types.push_back(matrix_type(l.form().modifiers[i]));
    return types;
}

unsigned register_bytes(Lower &l, const Operand &o)
{
    const Operand &first = o.kind == Operand::vector ? l.child(o, 0) : o;
    return first.kind == Operand::reg ? l.register_type(first).total() / 8 : 4;
}

unsigned registers(const Operand &o) { return o.kind == Operand::vector ? o.count : 1; }

V behind(Lower &l, const V &memory, size_t bytes)
{
    return l.def("getelementptr i8, ptr ", memory, ", i64 ", std::to_string(bytes));
}

// The registers of a fragment into memory, one after another, and out of it.
void put(Lower &l, const Operand &o, const V &memory)
{
    const unsigned bytes = register_bytes(l, o), n = registers(o);
    const Type t{Type::bits, static_cast<uint16_t>(8 * bytes), 1};
    for (unsigned i = 0; i < n; ++i) {
        V v = l.read(o.kind == Operand::vector ? l.child(o, i) : o, t);
        l.emit("store ", ll(t), " ", v, ", ptr ", behind(l, memory, i * bytes),
               l.metadata(Space::none));
    }
}

void fetch(Lower &l, const Operand &o, const V &memory)
{
    const unsigned bytes = register_bytes(l, o);
    const Type t{Type::bits, static_cast<uint16_t>(8 * bytes), 1};
    for (unsigned i = 0; i < registers(o); ++i)
        l.write(
            o.kind == Operand::vector ? l.child(o, i) : o,
            l.def("load ", ll(t), ", ptr ", behind(l, memory, i * bytes), l.metadata(Space::none)),
            t);
}

constexpr size_t kA = offsetof(MatrixLane, a), kB = offsetof(MatrixLane, b),
                 kC = offsetof(MatrixLane, c), kD = offsetof(MatrixLane, d);

// All lanes together; `lane` is this one's MatrixLane.
void together(Lower &l, const V &lane, uint32_t what, uint64_t code = 0)
{
    if (l.is_cut()) {
        Lower::Meet m{.op = WarpOp::matrix, .detail = what, .mask = "-1"};
        m.wide = l.def("ptrtoint ptr ", lane, " to i64");
        m.b = std::to_string(static_cast<uint32_t>(code));
        m.c = std::to_string(static_cast<uint32_t>(code >> 32));
        l.meet(m);
        return;
    }
    l.runtime("void", "rt_matrix", "ptr, i32, i32, i64, ptr",
              join("ptr ", l.thread(), ", i32 ", l.site(), ", i32 ", std::to_string(what), ", i64 ",
                   std::to_string(code), ", ptr ", lane));
}

// m, n, k and the four types as the engine's one number.
uint64_t code(Lower &l, MatrixType d, MatrixType a, MatrixType b, MatrixType c)
{
    unsigned shape[3] = {};
    if (!parse_shape(l, shape)) l.fail("no shape");
    return matrix_code(shape[0], shape[1], shape[2], d, a, b, c);
}

// Types are written d, a, b, c; wmma leaves a and b out where they are f16.
void multiply(Lower &l)
{
    bool wmma = l.form().row->opcode == "wmma";
    auto t = matrix_types(l);
    if (t.size() == 2) t = {t[0], MatrixType::f16, MatrixType::f16, t[1]};
    if (t.size() != 4) return l.fail("four types are expected");
    const V lane = l.matrix_lane();
    if (!l.resumes()) {
        put(l, l.operand(1), behind(l, lane, kA));
        put(l, l.operand(2), behind(l, lane, kB));
        put(l, l.operand(3), behind(l, lane, kC));
    }
    together(l, lane, matrix_detail(wmma ? MatrixOp::wmma : MatrixOp::mma, 0, false),
             code(l, t[0], t[1], t[2], t[3]));
    fetch(l, l.operand(0), behind(l, lane, kD));
}

// wmma.load.{a,b,c} registers, [p] [, stride] and wmma.store.d [p], registers [, stride]
void wmma_move(Lower &l)
{
    bool store = l.has("store");
    const Operand &regs = l.operand(store ? 1 : 0), &where = l.operand(store ? 0 : 1);
    auto t = matrix_types(l);
    unsigned shape[3] = {};
    if (t.size() != 1 || !parse_shape(l, shape)) return l.fail("a shape and a type are expected");
    unsigned rows = l.has("b") ? shape[2] : shape[0], columns = l.has("a") ? shape[2] : shape[1];
    bool by_row = l.has("row");
    V stride = l.operands() > 2 ? l.get(2, kB32) : std::to_string(by_row ? columns : rows);
    V memory = l.slot("[" + std::to_string(registers(regs) * register_bytes(l, regs)) +
                      " x i8], align 16");
    if (store) put(l, regs, memory);
    V code = std::to_string(matrix_code(rows, columns, 0, t[0], t[0], t[0], t[0]));
    l.runtime("void", store ? "rt_wmma_store" : "rt_wmma_load", "ptr, i64, ptr, i32, i32, ptr",
              join("ptr ", l.thread(), ", i64 ", code, ", ptr ", l.address(where, space_of(l)),
                   ", i32 ", stride, ", i32 ", by_row ? "1" : "0", ", ptr ", memory),
              "nounwind");
    if (!store) fetch(l, regs, memory);
}

uint32_t detail(const Lower &l, MatrixOp op)
{
    return matrix_detail(op, l.has("x4") ? 4 : l.has("x2") ? 2 : 1, l.has("trans"));
}

void put_address(Lower &l, const Operand &row, const V &lane)
{
    l.emit("store ptr ", l.address(row, space_of(l)), ", ptr ", behind(l, lane, kA),
           l.metadata(Space::none));
}

void ldmatrix(Lower &l)
{
    const V lane = l.matrix_lane();
    if (!l.resumes()) put_address(l, l.operand(1), lane);
    together(l, lane, detail(l, MatrixOp::load));
    fetch(l, l.operand(0), behind(l, lane, kD));
}

void stmatrix(Lower &l)
{
    const V lane = l.matrix_lane();
    if (!l.resumes()) {
        put_address(l, l.operand(0), lane);
        put(l, l.operand(1), behind(l, lane, kB));
    }
    together(l, lane, detail(l, MatrixOp::store));
}

void movmatrix(Lower &l)
{
    const V lane = l.matrix_lane();
    if (!l.resumes()) put(l, l.operand(1), behind(l, lane, kA));
    together(l, lane, detail(l, MatrixOp::turn));
    fetch(l, l.operand(0), behind(l, lane, kD));
}

#define WMMA "m16n16k16|m8n32k16|m32n8k16|m16n16k8|m8n8k4"
#define SHARED "?shared|shared::cta"

constexpr uint8_t kMeeting = kThread | kMeets;

const Row kRows[] = {
    {"mma", "sync aligned m16n8k8|m16n8k16 row col f16|f32 f16 f16 f16|f32", 4, 4, multiply,
     kMeeting},
    {"mma", "sync aligned m16n8k8|m16n8k16 row col f32 bf16 bf16 f32", 4, 4, multiply, kMeeting},
    {"mma", "sync aligned m16n8k4|m16n8k8 row col f32 tf32 tf32 f32", 4, 4, multiply, kMeeting},
    {"mma", "sync aligned m8n8k4|m16n8k4|m16n8k8|m16n8k16 row col f64 f64 f64 f64", 4, 4, multiply,
     kMeeting},
    {"mma", "sync aligned m8n8k16|m16n8k16|m16n8k32 row col ?satfinite s32 s8|u8 s8|u8 s32", 4, 4,
     multiply, kMeeting},
    {"mma",
     "sync aligned m16n8k16|m16n8k32 row col ?kind::f8f6f4 f16|f32 e4m3|e5m2 e4m3|e5m2 f16|f32", 4,
     4, multiply, kMeeting},
    {"wmma", "mma sync aligned row|col row|col " WMMA " f16|f32 f16|f32 ?satfinite", 4, 4, multiply,
     kMeeting},
    {"wmma",
     "mma sync aligned row|col row|col " WMMA
     " f32|s32|f64 bf16|tf32|s8|u8|f64 bf16|tf32|s8|u8|f64 f32|s32|f64 ?rn ?satfinite",
     4, 4, multiply, kMeeting},
    {"wmma",
     "load a|b|c sync aligned row|col " WMMA
     " ?global|shared|shared::cta f16|bf16|tf32|f32|f64|s8|u8|s32",
     2, 3, wmma_move},
    {"wmma", "store d sync aligned row|col " WMMA " ?global|shared|shared::cta f16|f32|f64|s32", 2,
     3, wmma_move},
    {"ldmatrix", "~sync aligned m8n8 x1|x2|x4 ?trans " SHARED " b16", 2, 2, ldmatrix, kMeeting},
    {"stmatrix", "~sync aligned m8n8 x1|x2|x4 ?trans " SHARED " b16", 2, 2, stmatrix, kMeeting},
    {"movmatrix", "sync aligned m8n8 trans b16", 2, 2, movmatrix, kMeeting},
};

}  // namespace

std::span<const Row> matrix_rows() { return kRows; }

}  // namespace rgpu::softgpu::lower
