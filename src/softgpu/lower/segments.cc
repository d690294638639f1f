// SPDX-License-Identifier: Apache-2.0
#include "softgpu/lower/segments.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "softgpu/abi.h"
#include "softgpu/lower/await.h"
#include "softgpu/lower/ir_text.h"
#include "softgpu/lower/uniform.h"

namespace rgpu::softgpu::lower {

using ptx::Space;

namespace {

// Past these a kernel takes too long to compile.
constexpr size_t kMostSegments = 96, kMostCopies = 6;

Error not_cut(std::string why) { return Error{ErrorKind::unsupported, std::move(why)}; }

bool has_vector_registers(const ptx::Body &body)
{
    return std::any_of(body.registers.begin(), body.registers.end(),
                       [](const ptx::Register &r) { return r.lanes > 1; });
}

// A carry does not live across a meeting: is each one that is read made right before?
bool carries_cross(const ptx::Body &body, const std::vector<Cut> &cuts)
{
    bool made = false;
    std::vector<uint8_t> target(body.instructions.size() + 1, 0);
    for (const ptx::Label &l : body.labels) target[l.instruction] = 1;
    for (size_t i = 0; i < body.instructions.size(); ++i) {
        const std::string_view op = body.instructions[i].opcode;
        if (cuts[i] != Cut::none || target[i]) made = false;
        if ((op.starts_with("addc") || op.starts_with("subc") || op.starts_with("madc")) && !made)
            return true;
        if (op.find(".cc") != op.npos) made = true;
    }
    return false;
}

bool has_matrix(std::string_view op)
{
    return op.starts_with("mma.") || op.starts_with("wmma.mma") || op.starts_with("ldmatrix") ||
           op.starts_with("stmatrix") || op.starts_with("movmatrix");
}

class Cutter {
public:
    Cutter(const Unit &unit, const ptx::Function &f, const ptx::Body &body, std::vector<Cut> cuts,
           std::vector<Step> steps, Lockstep how)
        : body_(body), cuts_(std::move(cuts)), flow_(body, cuts_),
          values_(find_values(unit, f, body, flow_, how)),
          n_(static_cast<uint32_t>(body.instructions.size()))
    {
        out_.behind.assign(n_, Segments::kNone);
        out_.varies = values_.varies;
        out_.steps = std::move(steps);
    }

    const std::vector<uint32_t> &joins() const { return values_.joins; }

    Result<Segments> cut()
    {
        if (awaits_store(body_, flow_, cuts_))
            return not_cut("a loop of meetings may wait for another block's store");
        add(Segment::kStart);
        for (uint32_t i = 0; i < n_; ++i)
            if (is_cut(i)) out_.behind[i] = static_cast<uint32_t>(out_.all.size()), add(i);
        if (out_.all.size() > kMostSegments)
            return not_cut(std::to_string(out_.all.size() - 1) +
                           " meetings are too many to cut at");
        size_t copies = 0;
        for (const Segment &s : out_.all)
            copies += static_cast<size_t>(std::count(s.members.begin(), s.members.end(), 1));
        if (copies > kMostCopies * n_ + 1000)
            return not_cut("its control flow between meetings is too entangled");
        out_.level = true;
        for (uint32_t i = 0; i < n_; ++i)
            if (is_cut(i) && body_.instructions[i].opcode.starts_with("bar") &&
                !body_.instructions[i].opcode.starts_with("bar.warp"))
                out_.level &= is_level(i);
        lay_out();
        return std::move(out_);
    }

private:
    bool is_cut(uint32_t i) const { return cuts_[i] != Cut::none; }
    bool is_step(uint32_t i) const { return out_.steps[i] != Step::none; }

    // What a lane must know behind a meeting, or before a step.
    RegisterSet live_at(uint32_t cut) const
    {
        RegisterSet live = flow_.blocks()[flow_.block_of(cut)].live_out;
        if (!is_step(cut) || flow_.access(cut).certain)
            for (uint32_t r : flow_.access(cut).writes) live.remove(r);
        if (is_step(cut))
            for (uint32_t r : flow_.access(cut).reads) live.add(r);
        return live;
    }

    bool is_level(uint32_t i) const
    {
        const int32_t p = body_.instructions[i].predicate;
        return !values_.divergent[flow_.block_of(i)] &&
               (p < 0 || !values_.varies[static_cast<uint32_t>(p)]);
    }

    void add(uint32_t cut)
    {
        Segment s;
        s.cut = cut;
        s.members.assign(n_, 0);
        std::vector<uint8_t> seen(flow_.blocks().size(), 0);
        std::vector<uint32_t> open;
        auto reach = [&](uint32_t b) {
            if (!seen[b]) seen[b] = 1, open.push_back(b);
        };
        if (cut == Segment::kStart)
            reach(0);
        else
            for (uint32_t b : flow_.blocks()[flow_.block_of(cut)].next) reach(b);
        while (!open.empty()) {
            const BasicBlock &b = flow_.blocks()[open.back()];
            open.pop_back();
            std::fill(s.members.begin() + b.first, s.members.begin() + b.last, 1);
            // Behind a meeting begins the next segment, but for those whom its predicate spares.
            const uint32_t last = b.last - 1;
            if (!is_cut(last) || (!is_step(last) && body_.instructions[last].predicate >= 0))
                for (uint32_t to : b.next) reach(to);
        }
        if (cut != Segment::kStart) find_values_of(s);
        note_used(s);
        out_.all.push_back(std::move(s));
    }

    // What its code may read of what a thread knew before.
    void find_values_of(Segment &s)
    {
        const RegisterSet live = live_at(s.cut);
        std::vector<uint8_t> runs(n_, 0);
        for (uint32_t r = 0; r < body_.registers.size(); ++r) {
            if (!live.has(r)) continue;
            if (values_.again[r] == Values::kNever)
                s.kept.push_back(r);
            else
                run_again(values_.again[r], runs);
        }
        order(runs, s.again);
    }

    void run_again(uint32_t i, std::vector<uint8_t> &runs)
    {
        if (runs[i]) return;
        runs[i] = 1;
        for (uint32_t r : flow_.access(i).reads) run_again(values_.again[r], runs);
    }

    // Each behind those that make what it reads: not the text's order where that has loops.
    void order(const std::vector<uint8_t> &runs, std::vector<uint32_t> &out)
    {
        std::vector<uint8_t> done(n_, 0);
        for (uint32_t i = 0; i < n_; ++i)
            if (runs[i]) put(i, done, out);
    }
    void put(uint32_t i, std::vector<uint8_t> &done, std::vector<uint32_t> &out)
    {
        if (done[i]) return;
        done[i] = 1;
        for (uint32_t r : flow_.access(i).reads) put(values_.again[r], done, out);
        out.push_back(i);
    }

    void note_used(Segment &s)
    {
        RegisterSet set(body_.registers.size());
        auto note = [&](uint32_t i) {
            for (uint32_t r : flow_.access(i).reads) set.add(r);
            for (uint32_t r : flow_.access(i).writes) set.add(r);
        };
        for (uint32_t i = 0; i < n_; ++i)
            if (s.members[i]) note(i);
        for (uint32_t i : s.again) note(i);
        if (s.cut != Segment::kStart) note(s.cut);
        // What the segments behind it keep is stored at its ends.
        for (uint32_t r : s.kept) set.add(r);
        for (uint32_t i = 0; i < n_; ++i) {
            if (!s.members[i] || !is_cut(i)) continue;
            const RegisterSet live = live_at(i);
            for (uint32_t r = 0; r < body_.registers.size(); ++r)
                if (live.has(r) && values_.again[r] == Values::kNever) set.add(r);
        }
        for (uint32_t r = 0; r < body_.registers.size(); ++r)
            if (set.has(r)) s.used.push_back(r);
    }

    // Registers by size, the widest first, 32 of each together; then each lane's variables.
    void lay_out()
    {
        const auto registers = static_cast<uint32_t>(body_.registers.size());
        std::vector<uint8_t> kept(registers, 0);
        for (const Segment &s : out_.all)
            for (uint32_t r : s.kept) kept[r] = 1;
        out_.place.assign(registers, 0);
        for (uint32_t bytes = 16; bytes; bytes /= 2)
            for (uint32_t r = 0; r < registers; ++r) {
                if (!kept[r] || kept_bytes(body_.registers[r].type) != bytes) continue;
                out_.place[r] = out_.frame_bytes;
                out_.frame_bytes += bytes * kLanes;
            }
        out_.variables.assign(body_.variables.size(), 0);
        for (size_t i = 0; i < body_.variables.size(); ++i) {
            const ptx::Variable &v = body_.variables[i];
            if (v.space != Space::local) continue;
            const uint32_t stride = local_stride(v);
            const auto align = static_cast<uint32_t>(std::max<size_t>(v.align, 64));
            out_.frame_bytes = (out_.frame_bytes + align - 1) / align * align;
            out_.variables[i] = out_.frame_bytes;
            out_.frame_bytes += stride * kLanes;
        }
        out_.frame_bytes = (out_.frame_bytes + 63) / 64 * 64;
        if (std::none_of(body_.instructions.begin(), body_.instructions.end(),
                         [](const ptx::Instruction &in) { return has_matrix(in.opcode); }))
            return;
        out_.matrix = out_.frame_bytes;
        out_.frame_bytes += static_cast<uint32_t>(sizeof(MatrixLane)) * kLanes;
    }

    const ptx::Body &body_;
    const std::vector<Cut> cuts_;
    const Flow flow_;
    const Values values_;
    const uint32_t n_;
    Segments out_;
};

// `meetings`: 1 for every instruction at which the kernel's threads meet.
Result<Segments> cut_at(const Unit &unit, const ptx::Function &f, const ptx::Body &body,
                        const std::vector<uint8_t> &meetings, Lockstep how)
{
    std::vector<uint8_t> stops = meetings, joins(meetings.size(), 0);
    std::optional<Cutter> cutter;
    // Joins make other blocks and steps, which may show more of them.
    for (int tries = 0; tries < 8; ++tries) {
        std::vector<Step> steps = find_steps(body, stops, how);
        std::vector<Cut> cuts(meetings.size(), Cut::none);
        for (size_t i = 0; i < cuts.size(); ++i) {
            if (joins[i] && steps[i] == Step::none) steps[i] = Step::waits;
            cuts[i] = meetings[i]              ? Cut::meeting
                      : joins[i]               ? Cut::join
                      : steps[i] != Step::none ? Cut::step
                                               : Cut::none;
        }
        if (carries_cross(body, cuts)) return not_cut("a carry lives longer than its block");
        cutter.emplace(unit, f, body, std::move(cuts), std::move(steps), how);
        if (cutter->joins().empty()) break;
        for (uint32_t i : cutter->joins()) joins[i] = stops[i] = 1;
    }
    return cutter->cut();
}

}  // namespace

uint32_t kept_bytes(Type t)
{
    if (t.kind == Type::pred) return 1;
    return static_cast<uint32_t>(t.total() / 8);
}

uint32_t local_stride(const ptx::Variable &v)
{
    const size_t align = std::max<size_t>(v.align, 8);
    return static_cast<uint32_t>((std::max<size_t>(v.size, 1) + align - 1) / align * align);
}

bool needs_steps(const ptx::Body &body)
{
    if (!may_have_steps(body)) return false;
    const std::vector<uint8_t> none(body.instructions.size(), 0);
    const std::vector<Step> steps = find_steps(body, none, Lockstep::all);
    return std::any_of(steps.begin(), steps.end(), [](Step s) { return s != Step::none; });
}

bool wants_fibers()
{
    const char *set = getenv("RGPU_SOFTGPU_FIBERS");
    return set && !strcmp(set, "1");
}

Result<Segments> find_segments(const Unit &unit, const ptx::Function &f, const ptx::Body &body,
                               const Forms &forms)
{
    std::vector<uint8_t> cuts(body.instructions.size(), 0);
    for (size_t i = 0; i < forms.size(); ++i) {
        const ptx::Instruction &in = body.instructions[i];
        if (forms[i]->row->need & kMeets)
            cuts[i] = 1;
        else if (forms[i]->row->need & kThread)
            return not_cut(std::string(in.opcode) + " waits in a way that needs a fiber");
        if (in.opcode.starts_with("alloca") || in.opcode.starts_with("stack"))
            return not_cut("it takes memory of a stack");
    }
    if (has_vector_registers(body)) return not_cut("it has vector registers");
    auto found = cut_at(unit, f, body, cuts, Lockstep::all);
    // Better in step where the program says so than a fiber for each thread.
    return found ? found : cut_at(unit, f, body, cuts, Lockstep::declared);
}

}  // namespace rgpu::softgpu::lower
