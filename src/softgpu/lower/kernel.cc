// SPDX-License-Identifier: Apache-2.0
// One object: a kernel with all it calls, lowered, wrapped in its entry, compiled; or a function
// that kernels call through its address.
#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "softgpu/abi.h"
#include "softgpu/lower/forms.h"
#include "softgpu/lower/lower.h"
#include "softgpu/lower/module.h"
#include "softgpu/lower/prelude.h"
#include "softgpu/lower/segment_entry.h"
#include "softgpu/lower/segments.h"
#include "softgpu/lower/spins.h"
#include "softgpu/ptx/parser.h"

namespace rgpu::softgpu::lower {

namespace {

struct Lowered {
    const ptx::Function *function;
    ptx::Body body;
    Forms forms;
};

struct KernelUnit final : Unit {
    explicit KernelUnit(const Module &m) : module(m) {}
    Symbol find(std::string_view name) const override { return module.find(name); }
    std::vector<const ptx::Function *> targets(const ptx::Prototype &p) const override
    {
        return module.targets(signature(p.returns, p.parameters));
    }
    const Module &module;
};

// Does a thread of it always wait for others?
bool waits(const Forms &forms)
{
    return std::any_of(forms.begin(), forms.end(),
                       [](const Form *f) { return (f->row->need & kThread) != 0; });
}

bool has_local(const ptx::Body &body)
{
    return std::any_of(body.variables.begin(), body.variables.end(),
                       [](const ptx::Variable &v) { return v.space == Space::local; });
}

// The loop over a block's threads, x innermost.
std::string block_entry(const std::string &name, bool parallel)
{
    auto at = [](const char *value, const char *base, size_t offset) {
        return join("  %", value, ".at = getelementptr i8, ptr %", base, ", i64 ",
                    std::to_string(offset), "\n");
    };
    std::string s =
        join("define void @\"k.", name, "\"(ptr noalias nonnull dereferenceable(",
             std::to_string(sizeof(BlockState)),
             ") %block) nounwind null_pointer_is_valid \"probe-stack\"=\"inline-asm\" {\nentry:\n  "
             "%ts = alloca [",
             std::to_string(sizeof(ThreadState) + 16),
             " x i8], align 16\n  store ptr %block, ptr %ts\n"
             "  %grid = load ptr, ptr %block, align 8, !invariant.load !0, !nonnull !0, "
             "!dereferenceable !6\n");
    const std::pair<const char *, size_t> sizes[] = {
        {"nx", offsetof(Dim3, x)}, {"ny", offsetof(Dim3, y)}, {"nz", offsetof(Dim3, z)}};
    for (auto [n, offset] : sizes) {
        s += at(n, "grid", offsetof(GridState, block) + offset);
        s += join("  %", n, " = load i32, ptr %", n,
                  ".at, align 4, !invariant.load !0, !range !4\n");
    }
    const std::pair<const char *, size_t> fields[] = {{"tx", offsetof(ThreadState, tid_x)},
                                                      {"ty", offsetof(ThreadState, tid_y)},
                                                      {"tz", offsetof(ThreadState, tid_z)},
                                                      {"lane", offsetof(ThreadState, lane)},
                                                      {"warp", offsetof(ThreadState, warp)}};
    for (auto [n, offset] : fields) s += at(n, "ts", offset);
    // Behind it what alignment.cc gathers.
    s += at("wrong", "ts", sizeof(ThreadState)) + "  store i32 0, ptr %wrong.at\n";
    s += join(
        "  br label %zloop\n"
        "zloop:\n  %z = phi i32 [ 0, %entry ], [ %z1, %zlatch ]\n  %zrow = mul nuw nsw i32 %z, "
        "%ny\n  br label %yloop\n"
        "yloop:\n  %y = phi i32 [ 0, %zloop ], [ %y1, %ylatch ]\n  %row = add nuw nsw i32 %zrow, "
        "%y\n"
        "  %first = mul nuw nsw i32 %row, %nx\n  br label %xloop\n"
        "xloop:\n  %x = phi i32 [ 0, %yloop ], [ %x1, %xloop ]\n"
        "  store i32 %x, ptr %tx.at\n  store i32 %y, ptr %ty.at\n  store i32 %z, ptr %tz.at\n"
        "  %number = add nuw nsw i32 %first, %x\n  %lane = and i32 %number, 31\n  %warp = lshr i32 "
        "%number, 5\n"
        "  store i32 %lane, ptr %lane.at\n  store i32 %warp, ptr %warp.at\n"
        "  call void @\"f.",
        name,
        "\"(ptr %ts)\n"
        "  %x1 = add nuw nsw i32 %x, 1\n  %xmore = icmp ult i32 %x1, %nx\n  br i1 %xmore, label "
        "%xloop, label %ylatch",
        parallel ? ", !llvm.loop !2\n" : "\n",
        "ylatch:\n  %y1 = add nuw nsw i32 %y, 1\n  %ymore = icmp ult i32 %y1, %ny\n  br i1 %ymore, "
        "label %yloop, label %zlatch\n"
        "zlatch:\n  %z1 = add nuw nsw i32 %z, 1\n  %zmore = icmp ult i32 %z1, %nz\n  br i1 %zmore, "
        "label %zloop, label %done\n"
        "done:\n  %wrong = load i32, ptr %wrong.at\n  %bad = icmp ne i32 %wrong, 0\n"
        "  br i1 %bad, label %misaligned, label %end\n"
        "misaligned:\n  call void @rt_misaligned(ptr %block, i64 0)\n  unreachable\n"
        "end:\n  ret void\n}\n\n");
    return s;
}

std::string thread_entry(const std::string &name)
{
    return join("define void @\"k.", name, "\"(ptr noalias nonnull dereferenceable(",
                std::to_string(sizeof(ThreadState)),
                ") %ts) nounwind null_pointer_is_valid convergent \"probe-stack\"=\"inline-asm\" "
                "{\nentry:\n  call void @\"f.",
                name, "\"(ptr %ts) convergent\n  ret void\n}\n\n");
}

std::string metadata(size_t parameter_bytes)
{
    // 0: empty; 1: accesses of one thread do not touch another's; 2, 3: the loop over threads; 4:
    // sizes of a block; 5, 6, 7: sizes of the states and of the parameters.
    return "!0 = !{}\n!1 = distinct !{}\n!2 = distinct !{!2, !3}\n!3 = "
           "!{!\"llvm.loop.parallel_accesses\", !1}\n"
           "!4 = !{i32 1, i32 1025}\n!5 = !{i64 " +
           std::to_string(sizeof(BlockState)) + "}\n!6 = !{i64 " +
           std::to_string(sizeof(GridState)) + "}\n!7 = !{i64 " + std::to_string(parameter_bytes) +
           "}\n";
}

// The name in "declare TYPE @NAME(...)", to declare nothing twice.
std::string declared_name(std::string_view text)
{
    size_t at = text.find('@');
    return std::string(text.substr(at, text.find('(', at) - at));
}

void dump(const std::string &name, const std::string &ir)
{
    const char *folder = getenv("RGPU_DUMP_IR");
    if (!folder) return;
    if (FILE *f = fopen((std::string(folder) + "/" + name.substr(0, 200) + ".ll").c_str(), "w")) {
        fwrite(ir.data(), 1, ir.size(), f);
        fclose(f);
    }
}

// How a kernel whose threads wait is cut, or why it cannot be and its threads are fibers. `parts`
// begin with the kernel.
Result<Segments> cut(const Unit &unit, const std::vector<Lowered> &parts)
{
    auto no = [](std::string why) { return Error{ErrorKind::unsupported, std::move(why)}; };
    if (wants_fibers()) return no("RGPU_SOFTGPU_FIBERS=1");
    if (unit.converges) return no("it asks which lanes are together");
    if (unit.late) return no("it calls functions that are compiled when they are called");
    for (const Lowered &p : parts) {
        if (spins(*p.function, p.body, p.forms, true))
            return no("a thread of " + std::string(p.function->name) + " may spin");
        if (&p != &parts.front() && waits(p.forms))
            return no("threads meet in the function " + std::string(p.function->name));
    }
    return find_segments(unit, *parts.front().function, parts.front().body, parts.front().forms);
}

void tell_why(std::string_view kernel, const Error &why)
{
    const char *set = getenv("RGPU_SOFTGPU_LOG");
    if (!set || strcmp(set, "1") != 0) return;
    fprintf(stderr, "rgpu: kernel %.*s: each thread is a fiber: %s\n",
            static_cast<int>(kernel.size()), kernel.data(), why.text.c_str());
}

}  // namespace

Result<std::string> Module::ir(const Plan &plan, CompiledKernel &facts) const
{
    const ptx::Function &kernel = *plan.kernel, &entry = *plan.functions.front();
    std::vector<Lowered> parts;
    KernelUnit unit(*this);
    unit.late = unit.per_thread = plan.late;
    unit.converges = plan.converges;
    unit.exits = plan.exits;
    if (!plan.of_kernel()) {
        unit.exported = &entry;
        unit.sites = first_site(entry);
    }
    bool local = false, local_below = false, steps = false;
    FormFinder finder;
    for (const ptx::Function *f : plan.functions) {
        auto body = ptx::parse_body(*f);
        if (!body) return std::move(body).error();
        auto forms = finder.find(*body);
        if (!forms) return std::move(forms).error();
        unit.per_thread |= waits(*forms) || spins(*f, *body, *forms, false);
        steps |= f == &kernel && needs_steps(*body);
        local |= has_local(*body);
        local_below |= f != &kernel && has_local(*body);
        parts.push_back({f, std::move(body).value(), std::move(forms).value()});
    }
    unit.shared = plan.layout.offsets;
    std::optional<Segments> segments;
    if (plan.of_kernel() && (unit.per_thread || steps)) {
        auto found = cut(unit, parts);
        if (found)
            segments = std::move(found).value();
        else
            tell_why(kernel.name, found.error());
        unit.per_thread &= !segments;
    }
    unit.parallel = !unit.per_thread && !(segments ? local_below : local);

    std::string code;
    for (const Lowered &p : parts) {
        Lower lower(unit, *p.function, p.body, p.forms);
        auto text = segments && p.function == &kernel ? lower.run(*segments) : lower.run();
        if (!text) return std::move(text).error().in(std::string(p.function->name));
        code += *text;
    }
    const std::string name(entry.name);
    if (segments) {
        code += segments_entry(name, *segments, parts.front().body, unit.parallel);
        unit.declarations.insert("declare void @rt_run_warps(ptr, ptr, i32)");
        unit.declarations.insert("declare i32 @llvm.cttz.i32(i32, i1)");
    } else if (plan.of_kernel()) {
        code += unit.per_thread ? thread_entry(name) : block_entry(name, unit.parallel);
    }
    unit.declarations.insert("declare void @rt_misaligned(ptr, i64) noreturn nounwind cold");
    auto helpers = prelude(unit.helpers, unit.declarations);
    if (!helpers) return std::move(helpers).error();

    std::string head;
    std::set<std::string> seen;
    for (const std::string &d : unit.declarations)
        if (seen.insert(declared_name(d)).second) head += d + "\n";
    for (const std::string &c : unit.constants) head += c + "\n";
    for (const std::string &g : unit.globals) head += join("@\"g.", g, "\" = external global i8\n");
    facts.entry = (plan.of_kernel() ? "k." : "f.") + name;
    facts.per_thread = unit.per_thread;
    facts.stack_bytes = plan.stack_bytes;
    return join(head, "\n", *helpers, code, metadata(kernel.parameter_bytes));
}

Result<CompiledKernel> Module::compile(std::string_view kernel) const
{
    const ptx::Function *f = find_function(kernel);
    if (!f || !f->kernel || !f->defined)
        return error(ErrorKind::invalid, "the module has no kernel %s",
                     std::string(kernel).c_str());
    return compile(plan(*f, nullptr), "kernel " + std::string(kernel));
}

Result<CompiledKernel> Module::compile_function(std::string_view kernel,
                                                std::string_view function) const
{
    const ptx::Function *k = find_function(kernel), *f = find_function(function);
    if (!k || !k->kernel || !k->defined || !f || f->kernel || !f->defined)
        return error(ErrorKind::invalid, "the module has no kernel %s or no function %s",
                     std::string(kernel).c_str(), std::string(function).c_str());
    return compile(plan(*k, f), "function " + std::string(function));
}

Result<CompiledKernel> Module::compile(const Plan &plan, std::string_view name) const
{
    CompiledKernel out;
    auto text = ir(plan, out);
    if (!text) return std::move(text).error().in(join("compiling ", name));
    dump(std::string(plan.functions.front()->name), *text);
    auto object = compile_ir(*text);
    if (!object) return std::move(object).error().in(join("compiling ", name));
    out.object = std::move(object).value();
    return out;
}

}  // namespace rgpu::softgpu::lower
