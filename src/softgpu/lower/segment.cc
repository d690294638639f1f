// SPDX-License-Identifier: Apache-2.0
// Lowers a kernel that is cut: each segment as a function for one lane, which reads what the lane
// knew from its warp's frame, and at its ends leaves what the segments behind must know.
#include <cstddef>

#include "softgpu/abi.h"
#include "softgpu/lower/lower.h"

namespace rgpu::softgpu::lower {

namespace {

std::string type_in_frame(Type t) { return t.kind == Type::pred ? "i8" : storage_type(t); }

constexpr size_t of_values(size_t field) { return offsetof(WarpState, values) + field; }

}  // namespace

// Where the lane's element of an array in WarpState or behind it lies.
V Lower::lane_of(size_t offset, unsigned bits)
{
    V array = def("getelementptr i8, ptr %w, i64 ", std::to_string(offset));
    return def("getelementptr ", ll_int(bits), ", ptr ", array, ", i64 %lane");
}

V Lower::matrix_lane()
{
    if (!is_cut())
        return slot(join("[", std::to_string(sizeof(MatrixLane)), " x i8], align ",
                         std::to_string(alignof(MatrixLane))));
    V first = def("getelementptr i8, ptr %w, i64 ",
                  std::to_string(sizeof(WarpState) + segments_->matrix));
    return def("getelementptr [", std::to_string(sizeof(MatrixLane)), " x i8], ptr ", first,
               ", i64 %lane");
}

V Lower::kept(uint32_t reg)
{
    const Type t = body_.registers[reg].type;
    return lane_of(sizeof(WarpState) + segments_->place[reg], 8 * kept_bytes(t));
}

std::string Lower::local_in_frame(size_t i) const
{
    const V name = variable_slot(static_cast<uint32_t>(i));
    return join("  ", name, ".of = getelementptr i8, ptr %w, i64 ",
                std::to_string(sizeof(WarpState) + segments_->variables[i]), "\n  ", name,
                " = getelementptr [", std::to_string(local_stride(body_.variables[i])),
                " x i8], ptr ", name, ".of, i64 %lane\n");
}

void Lower::bring(size_t offset, const V &value, unsigned bits)
{
    if (value.empty()) return;
    emit("store ", ll_int(bits), " ", value, ", ptr ", lane_of(offset, bits),
         metadata(Space::none));
}

// The lane's part of the segment ends.
void Lower::end_segment(const V &where)
{
    report_alignment();
    bring(offsetof(WarpState, next), where, 32);
    emit("ret void");
    open_ = false;
}

V Lower::meet(const Meet &m)
{
    if (resumes_) {
        if (!m.flag.empty())
            emit("store i32 ",
                 def("load i32, ptr ", lane_of(of_values(offsetof(LaneValues, flag)), 32),
                     metadata(Space::none)),
                 ", ptr ", m.flag);
        return def("load i32, ptr ", lane_of(of_values(offsetof(LaneValues, result)), 32),
                   metadata(Space::none));
    }
    const auto index = static_cast<uint32_t>(in_ - body_.instructions.data());
    const uint32_t behind = segments_->behind[index];
    bring(offsetof(WarpState, mask), m.mask, 32);
    bring(of_values(offsetof(LaneValues, value)),
          m.value.empty() ? m.wide : def("zext i32 ", m.value, " to i64"), 64);
    bring(of_values(offsetof(LaneValues, b)), m.b, 32);
    bring(of_values(offsetof(LaneValues, c)), m.c, 32);
    for (uint32_t r : segments_->all[behind].kept) {
        const Type t = body_.registers[r].type;
        V v = def("load ", storage_type(t), ", ptr %r", r);
        if (t.kind == Type::pred) v = def("zext i1 ", v, " to i8");
        emit("store ", type_in_frame(t), " ", v, ", ptr ", kept(r), metadata(Space::none));
    }
    end_segment(std::to_string(waiting_at(m.op, m.detail, behind)));
    // What the row writes behind its meeting belongs to the next segment: nothing comes here.
    place_after_terminator(block());
    return "0";
}

// What the lane knew.
void Lower::enter_segment()
{
    for (uint32_t r : segment_->kept) {
        const Type t = body_.registers[r].type;
        V v;
        if (!segments_->varies[r])
            v = "%u" + std::to_string(r);
        else
            v = def("load ", type_in_frame(t), ", ptr ", kept(r), metadata(Space::none));
        if (t.kind == Type::pred) v = def("trunc i8 ", v, " to i1");
        emit("store ", storage_type(t), " ", v, ", ptr %r", r);
        if (pointer_rank_[r]) emit("store ptr ", def("inttoptr i64 ", v, " to ptr"), ", ptr %p", r);
    }
    resumes_ = true;  // nothing meets or waits for a step here
    for (uint32_t i : segment_->again) lower(i);
    resumes_ = false;
    if (segment_->cut == Segment::kStart) return;
    if (segments_->steps[segment_->cut] != Step::none) {
        resumes_ = true;  // the whole instruction
        lower(segment_->cut);
        resumes_ = false;
        return;
    }
    in_ = &body_.instructions[segment_->cut];
    form_ = forms_[segment_->cut];
    resumes_ = true;
    form_->row->lower(*this);
    resumes_ = false;
}

Result<std::string> Lower::run_segment(uint32_t number)
{
    segment_ = &segments_->all[number];
    code_.clear();
    entry_.clear();
    entered_.clear();
    open_ = false;
    std::string head = join("define internal void @\"f.", function_.name, ".",
                            std::to_string(number), "\"(ptr %ts, ptr %w, i64 %lane");
    for (uint32_t r : segment_->kept)
        if (!segments_->varies[r])
            head += join(", ", type_in_frame(body_.registers[r].type), " %u", std::to_string(r));
    head += ") alwaysinline nounwind null_pointer_is_valid \"probe-stack\"=\"inline-asm\" "
            "{\nentry:\n";
    place("start");
    enter_segment();
    // Control comes to what stands behind the cut.
    const uint32_t first = segment_->cut == Segment::kStart ? 0 : segment_->cut + 1;
    const auto n = static_cast<uint32_t>(body_.instructions.size());
    jump("first");
    size_t label = 0;
    for (uint32_t i = 0; i < n; ++i) {
        const bool member = segment_->members[i];
        // Control does not come past the segment's instructions, only to a meeting's dead end.
        if (!member && open_) unreachable();
        if (i == first) place("first");
        for (; label < body_.labels.size() && body_.labels[label].instruction == i; ++label)
            if (member) place("L" + std::to_string(label));
        if (member) lower(i);
    }
    if (first == n) place("first");
    for (; label < body_.labels.size(); ++label) place("L" + std::to_string(label));
    if (open_) return_();
    if (error_) return *error_;
    return join(head, prologue(), entry_, "  br label %start\n", code_, "}\n\n");
}

Result<std::string> Lower::run(const Segments &segments)
{
    segments_ = &segments;
    std::string all;
    for (uint32_t k = 0; k < segments.all.size(); ++k) {
        auto text = run_segment(k);
        if (!text) return text;
        all += *text;
    }
    return all;
}

}  // namespace rgpu::softgpu::lower
