// SPDX-License-Identifier: Apache-2.0
// Lowers a function's statements, one after another; values, blocks and calls.
#include "softgpu/lower/lower.h"

#include "softgpu/lower/loops.h"
#include "softgpu/lower/pointers.h"

namespace rgpu::softgpu::lower {

Lower::Lower(Unit &unit, const ptx::Function &f, const ptx::Body &body, const Forms &forms)
    : unit_(unit), function_(f), body_(body), forms_(forms), pointer_rank_(find_pointers(f, body)),
      loop_(find_loops(body)), congruences_(find_congruences(unit, f, body)),
      touches_memory_(touches_memory(body))
{
    if (unit.converges) nest_ = find_nest(body);
}

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
    if (is_cut()) return end_segment(std::to_string(waiting_at(WarpOp::ended, 0, kNoSegment)));
    report_alignment();
    for (size_t i = 0; i < function_.returns.size(); ++i) {
        const ptx::Variable &v = function_.returns[i];
        if (v.space != Space::reg) continue;
        std::string type = storage_type(v.type);
        emit("store ", type, " ", def("load ", type, ", ptr %r", v.reg), ", ptr %o",
             std::to_string(i));
    }
    emit(function_.kernel ? "ret void" : ended ? "ret i1 true" : "ret i1 false");
    open_ = false;
}

void Lower::call(const V &callee, const std::string &arguments)
{
    if (unit_.converges)
        runtime("void", "rt_enter", "ptr, i32", join("ptr ", thread(), ", i32 ", site()));
    V ended = def("call i1 ", callee, "(", arguments, ")", unit_.per_thread ? " convergent" : "");
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

void Lower::yield()
{
    if (unit_.per_thread && (in_loop_ || !function_.kernel))
        runtime("void", "rt_yield", "ptr", "ptr " + thread());
}

std::string Lower::metadata(Space space) const
{
    return unit_.parallel && (space != Space::local || segment_) ? ", !llvm.access.group !1" : "";
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
    form_ = forms_[index];
    in_loop_ = loop_[index];
    if (!open_) place(block());
    if (!nest_.empty()) follow_loops(index);
    if (segment_ && !resumes_ && segments_->steps[index] != Step::none) {
        meet({.op = WarpOp::step, .detail = segments_->steps[index] == Step::spins});
        return;
    }
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
    std::vector<uint8_t> named(body_.registers.size(), !segment_);
    if (segment_)
        for (uint32_t r : segment_->used) named[r] = 1;
    for (size_t i = 0; i < body_.registers.size(); ++i) {
        if (!named[i]) continue;
        s += "  %r" + std::to_string(i) + " = alloca " + storage_type(body_.registers[i].type) +
             "\n";
        if (pointer_rank_[i]) s += "  %p" + std::to_string(i) + " = alloca ptr\n";
    }
    for (size_t i = 0; i < body_.variables.size(); ++i) {
        const ptx::Variable &v = body_.variables[i];
        if (v.space != Space::local && v.space != Space::param) continue;
        if (segment_ && v.space == Space::local) {
            s += local_in_frame(i);
            continue;
        }
        s += "  " + variable_slot(static_cast<uint32_t>(i)) + " = alloca [" +
             std::to_string(v.size) + " x i8], align " + std::to_string(v.align < 8 ? 8 : v.align) +
             "\n";
    }
    // Of a branch by a value that nobody wrote LLVM says that it is never reached, and all that
    // leads there goes with it.
    for (size_t i = 0; i < body_.registers.size(); ++i)
        if (named[i] && body_.registers[i].type.kind == Type::pred)
            s += "  store i1 false, ptr %r" + std::to_string(i) + "\n";
    return s;
}

Result<std::string> Lower::run()
{
    std::string head = join("define ", &function_ == unit_.exported ? "" : "internal ",
                            function_.kernel ? "void" : "i1", " @\"f.", function_.name,
                            "\"(ptr %ts");
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
        std::string type = storage_type(p.type);
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

}  // namespace rgpu::softgpu::lower
