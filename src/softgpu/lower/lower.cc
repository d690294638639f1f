// Lowers a function's statements, one after another; operands; blocks.
#include "softgpu/lower/lower.h"

#include <bit>
#include <cstddef>

#include "softgpu/abi.h"
#include "softgpu/lower/alignment.h"
#include "softgpu/ptx/grammar.h"

namespace rgpu::softgpu::lower {

std::string ll_int(unsigned bits) { return "i" + std::to_string(bits); }

std::string ll(Type t)
{
    std::string element;
    if (t.kind == Type::flt)
        element = t.width == 16 ? "half" : t.width == 32 ? "float" : "double";
    else if (t.kind == Type::bf || t.kind == Type::tf32)
        return ll_int(t.total());
    else
        element = ll_int(t.width);
    if (t.lanes == 1) return element;
    return "<" + std::to_string(t.lanes) + " x " + element + ">";
}

static_assert(offsetof(ThreadState, block) == 0 && offsetof(BlockState, grid) == 0,
              "block_state() and grid_state() rely on it");

namespace {

// How a register is kept: floats as floats, so that loops carry them in float registers.
std::string storage(Type t)
{
    if (t.kind == Type::flt && t.lanes == 1 && t.width >= 32) return ll(t);
    return ll_int(t.total());
}

}  // namespace

Lower::Lower(Unit &unit, const ptx::Function &f, const ptx::Body &body)
    : unit_(unit), function_(f), body_(body), pointer_rank_(find_pointers(f, body)),
      loop_(find_loops(body)), congruences_(find_congruences(unit, f, body)),
      touches_memory_(touches_memory(body))
{
    if (unit.converges) nest_ = find_nest(body);
}

Lower::~Lower() = default;

void Lower::fail(const std::string &why)
{
    if (error_) return;
    std::string text(in_ ? in_->text : function_.name);
    error_ = Error{ErrorKind::unsupported,
                   "PTX line " + std::to_string(in_ ? in_->line : 0) + ": '" + text + "': " + why};
}

// --- blocks

void Lower::place(const std::string &b)
{
    if (open_) emit("br label %", b);
    code_ += b;
    code_ += ":\n";
    open_ = true;
}

void Lower::place_after_terminator(const std::string &b)
{
    open_ = false;
    place(b);
}

void Lower::jump(const std::string &b)
{
    emit("br label %", b);
    open_ = false;
}

void Lower::branch(const V &condition, const std::string &yes, const std::string &no)
{
    emit("br i1 ", condition, ", label %", yes, ", label %", no);
    open_ = false;
}

void Lower::unreachable()
{
    emit("unreachable");
    open_ = false;
}

std::string Lower::label(const Operand &o) const { return "L" + std::to_string(o.index); }

void Lower::return_(bool ended)
{
    report_alignment();
    for (size_t i = 0; i < function_.returns.size(); ++i) {
        const ptx::Variable &v = function_.returns[i];
        if (v.space != Space::reg) continue;
        std::string type = storage(v.type);
        emit("store ", type, " ", def("load ", type, ", ptr %r", v.reg), ", ptr %o",
             std::to_string(i));
    }
    emit(function_.kernel ? "ret void" : ended ? "ret i1 true" : "ret i1 false");
    open_ = false;
}

void Lower::call(const std::string &callee, const std::string &arguments)
{
    if (unit_.converges)
        runtime("void", "rt_enter", "ptr, i32", join("ptr ", thread(), ", i32 ", site()));
    V ended =
        def("call i1 @\"f.", callee, "\"(", arguments, ")", unit_.per_thread ? " convergent" : "");
    if (unit_.converges) runtime("void", "rt_leave", "ptr", "ptr " + thread());
    if (!unit_.exits) return;
    std::string yes = block(), no = block();
    branch(ended, yes, no);
    place(yes);
    return_(true);
    place_after_terminator(no);
}

// --- values

V Lower::slot(const std::string &type)
{
    V name = "%s" + std::to_string(slots_++);
    entry_ += "  " + name + " = alloca " + type + "\n";
    return name;
}

V Lower::entry(std::string_view name, const std::string &text)
{
    V v = join("%", name);
    if (entered_.insert(v).second) entry_ += join("  ", v, " = ", text, "\n");
    return v;
}

V Lower::carry() { return entry("cc", "alloca i1"); }

V Lower::cast(const V &v, const std::string &from, const std::string &to)
{
    if (from == to) return v;
    return def("bitcast ", from, " ", v, " to ", to);
}

V Lower::resize(const V &v, unsigned from, unsigned to, bool sign)
{
    if (from == to) return v;
    return def(from > to ? "trunc "
               : sign    ? "sext "
                         : "zext ",
               ll_int(from), " ", v, " to ", ll_int(to));
}

V Lower::select(const V &c, Type t, const V &a, const V &b)
{
    return def("select i1 ", c, ", ", ll(t), " ", a, ", ", ll(t), " ", b);
}

V Lower::intrinsic(const std::string &type, const std::string &name,
                   std::initializer_list<std::pair<std::string, V>> arguments)
{
    std::string types, values;
    for (const auto &[t, v] : arguments) {
        types += (types.empty() ? "" : ", ") + t;
        values += (values.empty() ? "" : ", ") + t + " " + v;
    }
    unit_.declarations.insert(join("declare ", type, " @", name, "(", types, ")"));
    if (type == "void") {
        emit("call void @", name, "(", values, ")");
        return {};
    }
    return def("call ", type, " @", name, "(", values, ")");
}

V Lower::helper(std::string_view type, std::string_view name, const std::string &arguments)
{
    unit_.helpers.emplace(name);
    return def("call ", type, " @", name, "(", arguments, ")");
}

V Lower::runtime(std::string_view type, std::string_view name, const std::string &parameters,
                 const std::string &arguments, std::string_view attributes)
{
    unit_.declarations.insert(
        join("declare ", type, " @", name, "(", parameters, ") ",
             attributes.empty() ? "nounwind convergent nomerge" : attributes));
    std::string call = join("call ", type, " @", name, "(", arguments, ")",
                            attributes.empty() ? " convergent nomerge" : "");
    if (type != "void") return def(call);
    emit(call);
    return {};
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
}

void Lower::yield()
{
    if (unit_.per_thread && (in_loop_ || !function_.kernel))
        runtime("void", "rt_yield", "ptr", "ptr " + thread());
}

std::string Lower::metadata(Space space) const
{
    return unit_.parallel && space != Space::local ? ", !llvm.access.group !1" : "";
}

V Lower::constant(const Operand &o, Type t)
{
    uint64_t bits = o.value;
    if (o.kind == Operand::float64) {
        double d = std::bit_cast<double>(bits);
        if (t.kind == Type::flt && t.width == 32)
            bits = std::bit_cast<uint32_t>(static_cast<float>(d));
    } else if (o.kind == Operand::float32 && t.kind == Type::flt && t.width == 64) {
        bits = std::bit_cast<uint64_t>(
            static_cast<double>(std::bit_cast<float>(static_cast<uint32_t>(bits))));
    }
    if (t.kind == Type::pred) return bits ? "true" : "false";
    unsigned width = t.total();
    if (width < 64) bits &= (uint64_t{1} << width) - 1;
    std::string integer = std::to_string(bits);
    if (width > 64 && static_cast<int64_t>(bits) < 0)
        integer = std::to_string(static_cast<int64_t>(bits));
    std::string type = ll(t), as_int = ll_int(width);
    if (type == as_int) return integer;
    return "bitcast (" + as_int + " " + integer + " to " + type + ")";
}

V Lower::read_register(const Operand &o, Type t)
{
    Type r = body_.registers[o.index].type;
    std::string stored = storage(r);
    V v = def("load ", stored, ", ptr %r", o.index);
    if (r.kind == Type::pred || t.kind == Type::pred) {
        if (r.kind != t.kind) {
            fail("a predicate where a value is expected, or the other way round");
            return v;
        }
        return o.negated ? def("xor i1 ", v, ", true") : v;
    }
    unsigned from = r.total(), to = t.total();
    if (from != to) {
        v = cast(v, stored, ll_int(from));
        v = resize(v, from, to, t.is_signed());
        stored = ll_int(to);
    }
    return cast(v, stored, ll(t));
}

V Lower::read(const Operand &o, Type t)
{
    switch (o.kind) {
    case Operand::reg: return read_register(o, t);
    case Operand::integer:
    case Operand::float32:
    case Operand::float64:
        if (o.negated) {
            Operand flipped = o;
            flipped.value = !o.value;
            return constant(flipped, t);
        }
        return constant(o, t);
    case Operand::special: return special(o, t);
    case Operand::symbol:
    case Operand::variable:
        return cast(resize(symbol_value(o), 64, t.total(), false), ll_int(t.total()), ll(t));
    case Operand::vector: {
        // {a, b} as one value, a lowest.
        if (o.count == 0) break;
        unsigned width = t.total() / o.count;
        V all;
        for (unsigned i = 0; i < o.count; ++i) {
            V part = resize(read(child(o, i), Type{Type::bits, static_cast<uint16_t>(width), 1}),
                            width, t.total(), false);
            if (i) part = def("shl ", ll_int(t.total()), " ", part, ", ", i * width);
            all = i ? def("or ", ll_int(t.total()), " ", all, ", ", part) : part;
        }
        return cast(all, ll_int(t.total()), ll(t));
    }
    default: break;
    }
    fail("an operand that this instruction cannot read");
    return "zeroinitializer";
}

void Lower::write(const Operand &o, const V &value, Type t)
{
    if (o.kind == Operand::sink) return;
    if (o.kind == Operand::vector && o.count) {
        unsigned total = t.total(), width = total / o.count;
        V bits = cast(value, ll(t), ll_int(total));
        for (unsigned i = 0; i < o.count; ++i) {
            if (child(o, i).kind == Operand::sink) continue;
            V part = i ? def("lshr ", ll_int(total), " ", bits, ", ", i * width) : bits;
            write(child(o, i), resize(part, total, width, false),
                  Type{Type::bits, static_cast<uint16_t>(width), 1});
        }
        return;
    }
    if (o.kind != Operand::reg) return fail("the destination is no register");
    Type r = body_.registers[o.index].type;
    if ((r.kind == Type::pred) != (t.kind == Type::pred))
        return fail("a predicate and a value do not mix");
    V v = value;
    std::string have = ll(t), stored = storage(r);
    if (r.total() != t.total()) {
        v = cast(v, have, ll_int(t.total()));
        v = resize(v, t.total(), r.total(), t.is_signed());
        have = ll_int(r.total());
    }
    emit("store ", stored, " ", cast(v, have, stored), ", ptr %r", o.index);
}

// --- addresses

const ptx::Variable *Lower::variable(const Operand &o) const
{
    if (o.kind == Operand::variable) return &body_.variables[o.index];
    if (o.kind != Operand::symbol) return nullptr;
    for (auto *list : {&function_.parameters, &function_.returns})
        for (const ptx::Variable &p : *list)
            if (p.name == o.name) return &p;
    auto s = unit_.find(o.name);
    return s.kind == Unit::Symbol::variable ? s.variable_ : nullptr;
}

bool Lower::is_parameter(const Operand &o) const
{
    if (o.kind != Operand::symbol || !function_.kernel) return false;
    for (const ptx::Variable &p : function_.parameters)
        if (p.name == o.name) return true;
    return false;
}

uint32_t Lower::shared_offset(const ptx::Variable &v)
{
    auto found = unit_.shared.find(v.name);
    if (found != unit_.shared.end()) return found->second;
    fail("shared variable " + std::string(v.name) + " has no place");
    return 0;
}

// The value of a symbol in an expression: an address; of shared variables the offset.
V Lower::symbol_value(const Operand &o)
{
    if (o.kind == Operand::symbol) {
        auto s = unit_.find(o.name);
        if (s.kind == Unit::Symbol::function && !variable(o)) {
            return std::to_string(ptx::function_address(s.function_->name) + o.value);
        }
    }
    const ptx::Variable *v = variable(o);
    if (!v) {
        fail("unknown name " + std::string(o.name));
        return "0";
    }
    if (v->space == Space::shared) return std::to_string(shared_offset(*v) + o.value);
    return def("ptrtoint ptr ", pointer(o), " to i64");
}

bool Lower::is_pointer(const Operand &o) const { return pointer_rank(o) > 0; }

unsigned Lower::pointer_rank(const Operand &o) const
{
    if (o.kind == Operand::reg) return pointer_rank_[o.index];
    const ptx::Variable *v = variable(o);
    return v && v->space != Space::shared ? 2 : 0;
}

V Lower::pointer(const Operand &o)
{
    if (o.kind == Operand::reg) {
        if (pointer_rank_[o.index]) return def("load ptr, ptr %p", o.index);
        V bits = read(o, kB64);
        return def("inttoptr i64 ", bits, " to ptr");
    }
    const ptx::Variable *v = variable(o);
    if (!v) return def("inttoptr i64 ", read(o, kB64), " to ptr");
    V base;
    int64_t offset = static_cast<int64_t>(o.value);
    if (v->space == Space::shared) {
        base = shared_base();
        offset += shared_offset(*v);
    } else if (o.kind == Operand::variable && v->space != Space::global &&
               v->space != Space::constant) {
        base = variable_slot(o.index);
    } else if (v->space == Space::param) {
        size_t at = 0, n = 0;
        for (const ptx::Variable &p : function_.parameters) {
            if (function_.kernel) at = (at + p.align - 1) / p.align * p.align;
            if (p.name == v->name) {
                if (function_.kernel) {
                    base = parameters();
                    offset += static_cast<int64_t>(at);
                } else {
                    base = "%a" + std::to_string(n);
                }
                break;
            }
            at += p.size;
            ++n;
        }
        for (n = 0; base.empty() && n < function_.returns.size(); ++n)
            if (function_.returns[n].name == v->name) base = "%o" + std::to_string(n);
    } else {
        unit_.globals.emplace(v->name);
        base = join("@\"g.", v->name, "\"");
    }
    if (offset == 0) return base;
    return def("getelementptr i8, ptr ", base, ", i64 ", std::to_string(offset));
}

void Lower::write_pointer(const Operand &o, const V &p)
{
    if (o.kind == Operand::reg && pointer_rank_[o.index])
        emit("store ptr ", p, ", ptr %p", o.index);
}

V Lower::address(const Operand &o, Space space)
{
    if (o.kind != Operand::address) {
        fail("a memory operand is expected");
        return "null";
    }
    auto offset = std::to_string(static_cast<int64_t>(o.value));
    if (o.count == 0) {
        if (space == Space::shared)
            return def("getelementptr i8, ptr ", shared_base(), ", i64 ", offset);
        return def("inttoptr i64 ", offset, " to ptr");
    }
    const Operand &base = child(o, 0);
    if (base.kind != Operand::reg) return pointer(base);
    V p;
    if (space == Space::shared) {
        unsigned width = register_type(base).total();
        V at =
            resize(read(base, Type{Type::bits, static_cast<uint16_t>(width), 1}), width, 64, false);
        p = def("getelementptr i8, ptr ", shared_base(), ", i64 ", at);
    } else if (register_type(base).total() == 32) {
        p = def("inttoptr i64 ", read(base, kB64), " to ptr");
    } else {
        p = pointer(base);
    }
    if (o.value == 0) return p;
    return def("getelementptr i8, ptr ", p, ", i64 ", offset);
}

// --- statements

// Tells the engine where the thread is among loops.
void Lower::follow_loops(uint32_t index)
{
    const Nest &n = nest_[index];
    const std::string depth = std::to_string(n.depth);
    if (n.kind == Nest::header)
        runtime("void", "rt_loop", "ptr, i32, i32",
                join("ptr ", thread(), ", i32 ", depth, ", i32 ", site()));
    else if (n.kind == Nest::behind)
        runtime("void", "rt_unloop", "ptr, i32", join("ptr ", thread(), ", i32 ", depth));
}

void Lower::lower(uint32_t index)
{
    in_ = &body_.instructions[index];
    form_ = static_cast<const Form *>(in_->form);
    in_loop_ = loop_[index];
    if (!open_) place(block());
    if (!nest_.empty()) follow_loops(index);
    if (in_->predicate < 0) return form_->row->lower(*this);
    V p = def("load i1, ptr %r", in_->predicate);
    std::string yes = block(), no = block();
    if (in_->predicate_negated)
        branch(p, no, yes);
    else
        branch(p, yes, no);
    place(yes);
    form_->row->lower(*this);
    place(no);
}

std::string Lower::prologue()
{
    std::string s;
    for (size_t i = 0; i < body_.registers.size(); ++i) {
        s += "  %r" + std::to_string(i) + " = alloca " + storage(body_.registers[i].type) + "\n";
        if (pointer_rank_[i]) s += "  %p" + std::to_string(i) + " = alloca ptr\n";
    }
    for (size_t i = 0; i < body_.variables.size(); ++i) {
        const ptx::Variable &v = body_.variables[i];
        if (v.space != Space::local && v.space != Space::param) continue;
        s += "  " + variable_slot(static_cast<uint32_t>(i)) + " = alloca [" +
             std::to_string(v.size) + " x i8], align " + std::to_string(v.align < 8 ? 8 : v.align) +
             "\n";
    }
    // Of a branch by a value that nobody wrote LLVM says that it is never reached, and all that
    // leads there goes with it.
    for (size_t i = 0; i < body_.registers.size(); ++i)
        if (body_.registers[i].type.kind == Type::pred)
            s += "  store i1 false, ptr %r" + std::to_string(i) + "\n";
    return s;
}

Result<std::string> Lower::run()
{
    std::string head = join("define internal ", function_.kernel ? "void" : "i1", " @\"f.",
                            function_.name, "\"(ptr %ts");
    if (!function_.kernel) {
        for (size_t i = 0; i < function_.returns.size(); ++i)
            head += ", ptr %o" + std::to_string(i);
        for (size_t i = 0; i < function_.parameters.size(); ++i)
            head += ", ptr %a" + std::to_string(i);
    }
    head += join(") nounwind null_pointer_is_valid", function_.kernel ? " alwaysinline" : "",
                 unit_.per_thread ? " convergent" : "",
                 " \"probe-stack\"=\"inline-asm\" {\nentry:\n");

    open_ = false;
    place("start");
    // Parameters that are registers.
    for (size_t i = 0; i < function_.parameters.size(); ++i) {
        const ptx::Variable &p = function_.parameters[i];
        if (p.space != Space::reg) continue;
        std::string type = storage(p.type);
        V v = def("load ", type, ", ptr %a", std::to_string(i));
        emit("store ", type, " ", v, ", ptr %r", p.reg);
    }
    size_t label = 0;
    for (uint32_t i = 0; i < body_.instructions.size(); ++i) {
        for (; label < body_.labels.size() && body_.labels[label].instruction == i; ++label)
            place("L" + std::to_string(label));
        lower(i);
    }
    for (; label < body_.labels.size(); ++label) place("L" + std::to_string(label));
    if (open_) return_();
    if (error_) return *error_;
    return join(head, prologue(), entry_, "  br label %start\n", code_, "}\n\n");
}

// --- the state of the block and the grid

V Lower::block_state()
{
    V name = "%bs";
    return entry("bs", join("load ptr, ptr ", thread(), ", align 8",
                            unit_.per_thread ? ", !invariant.load !0" : "",
                            ", !nonnull !0, !dereferenceable !5"));
    return name;
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
