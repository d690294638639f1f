// Tensor core instructions. The work is done by the engine (exec/matrix.cc); here operands are put
// into memory.
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

// Memory that holds the registers of a fragment, one after another.
V fragment(Lower &l, const Operand &o, bool filled)
{
    unsigned bytes = register_bytes(l, o), n = registers(o);
    V memory = l.slot("[" + std::to_string(n * bytes) + " x i8], align 16");
    Type t{Type::bits, static_cast<uint16_t>(8 * bytes), 1};
    for (unsigned i = 0; filled && i < n; ++i) {
        V v = l.read(o.kind == Operand::vector ? l.child(o, i) : o, t);
        V at = l.def("getelementptr i8, ptr ", memory, ", i64 ", i * bytes);
        l.emit("store ", ll(t), " ", v, ", ptr ", at);
    }
    return memory;
}

void fetch(Lower &l, const Operand &o, const V &memory)
{
    unsigned bytes = register_bytes(l, o);
    Type t{Type::bits, static_cast<uint16_t>(8 * bytes), 1};
    for (unsigned i = 0; i < registers(o); ++i) {
        V at = l.def("getelementptr i8, ptr ", memory, ", i64 ", i * bytes);
        l.write(o.kind == Operand::vector ? l.child(o, i) : o, l.def("load ", ll(t), ", ptr ", at),
                t);
    }
}

// m, n, k and the four types as the engine's one number.
V code(Lower &l, MatrixType d, MatrixType a, MatrixType b, MatrixType c)
{
    unsigned shape[3] = {};
    if (!parse_shape(l, shape)) l.fail("no shape");
    return std::to_string(matrix_code(shape[0], shape[1], shape[2], d, a, b, c));
}

// Types are written d, a, b, c; wmma leaves a and b out where they are f16.
void multiply(Lower &l)
{
    bool wmma = l.form().row->opcode == "wmma";
    auto t = matrix_types(l);
    if (t.size() == 2) t = {t[0], MatrixType::f16, MatrixType::f16, t[1]};
    if (t.size() != 4) return l.fail("four types are expected");
    V d = fragment(l, l.operand(0), false), a = fragment(l, l.operand(1), true),
      b = fragment(l, l.operand(2), true), c = fragment(l, l.operand(3), true);
    l.runtime("void", wmma ? "rt_wmma" : "rt_mma", "ptr, i32, i64, ptr, ptr, ptr, ptr",
              join("ptr ", l.thread(), ", i32 ", l.site(), ", i64 ",
                   code(l, t[0], t[1], t[2], t[3]), ", ptr ", a, ", ptr ", b, ", ptr ", c, ", ptr ",
                   d));
    fetch(l, l.operand(0), d);
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
    V memory = fragment(l, regs, store);
    V code = std::to_string(matrix_code(rows, columns, 0, t[0], t[0], t[0], t[0]));
    l.runtime("void", store ? "rt_wmma_store" : "rt_wmma_load", "ptr, i64, ptr, i32, i32, ptr",
              join("ptr ", l.thread(), ", i64 ", code, ", ptr ", l.address(where, space_of(l)),
                   ", i32 ", stride, ", i32 ", by_row ? "1" : "0", ", ptr ", memory),
              "nounwind");
    if (!store) fetch(l, regs, memory);
}

unsigned matrices(const Lower &l) { return l.has("x4") ? 4 : l.has("x2") ? 2 : 1; }

void ldmatrix(Lower &l)
{
    V row = l.address(l.operand(1), space_of(l)), d = fragment(l, l.operand(0), false);
    l.runtime("void", "rt_ldmatrix", "ptr, i32, i32, i32, ptr, ptr",
              join("ptr ", l.thread(), ", i32 ", l.site(), ", i32 ", std::to_string(matrices(l)),
                   ", i32 ", l.has("trans") ? "1" : "0", ", ptr ", row, ", ptr ", d));
    fetch(l, l.operand(0), d);
}

void stmatrix(Lower &l)
{
    V row = l.address(l.operand(0), space_of(l)), s = fragment(l, l.operand(1), true);
    l.runtime("void", "rt_stmatrix", "ptr, i32, i32, i32, ptr, ptr",
              join("ptr ", l.thread(), ", i32 ", l.site(), ", i32 ", std::to_string(matrices(l)),
                   ", i32 ", l.has("trans") ? "1" : "0", ", ptr ", row, ", ptr ", s));
}

void movmatrix(Lower &l)
{
    V a = l.get(1, kB32);
    l.set(l.runtime("i32", "rt_movmatrix", "ptr, i32, i32",
                    join("ptr ", l.thread(), ", i32 ", l.site(), ", i32 ", a)),
          kB32);
}

#define WMMA "m16n16k16|m8n32k16|m32n8k16|m16n16k8|m8n8k4"
#define SHARED "?shared|shared::cta"

const Row kRows[] = {
    {"mma", "sync aligned m16n8k8|m16n8k16 row col f16|f32 f16 f16 f16|f32", 4, 4, multiply,
     kThread},
    {"mma", "sync aligned m16n8k8|m16n8k16 row col f32 bf16 bf16 f32", 4, 4, multiply, kThread},
    {"mma", "sync aligned m16n8k4|m16n8k8 row col f32 tf32 tf32 f32", 4, 4, multiply, kThread},
    {"mma", "sync aligned m8n8k4|m16n8k4|m16n8k8|m16n8k16 row col f64 f64 f64 f64", 4, 4, multiply,
     kThread},
    {"mma", "sync aligned m8n8k16|m16n8k16|m16n8k32 row col ?satfinite s32 s8|u8 s8|u8 s32", 4, 4,
     multiply, kThread},
    {"mma",
     "sync aligned m16n8k16|m16n8k32 row col ?kind::f8f6f4 f16|f32 e4m3|e5m2 e4m3|e5m2 f16|f32", 4,
     4, multiply, kThread},
    {"wmma", "mma sync aligned row|col row|col " WMMA " f16|f32 f16|f32 ?satfinite", 4, 4, multiply,
     kThread},
    {"wmma",
     "mma sync aligned row|col row|col " WMMA
     " f32|s32|f64 bf16|tf32|s8|u8|f64 bf16|tf32|s8|u8|f64 f32|s32|f64 ?rn ?satfinite",
     4, 4, multiply, kThread},
    {"wmma",
     "load a|b|c sync aligned row|col " WMMA
     " ?global|shared|shared::cta f16|bf16|tf32|f32|f64|s8|u8|s32",
     2, 3, wmma_move, kThread},
    {"wmma", "store d sync aligned row|col " WMMA " ?global|shared|shared::cta f16|f32|f64|s32", 2,
     3, wmma_move, kThread},
    {"ldmatrix", "~sync aligned m8n8 x1|x2|x4 ?trans " SHARED " b16", 2, 2, ldmatrix, kThread},
    {"stmatrix", "~sync aligned m8n8 x1|x2|x4 ?trans " SHARED " b16", 2, 2, stmatrix, kThread},
    {"movmatrix", "sync aligned m8n8 trans b16", 2, 2, movmatrix, kThread},
};

}  // namespace

std::span<const Row> matrix_rows() { return kRows; }

}  // namespace rgpu::softgpu::lower
