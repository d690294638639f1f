// SPDX-License-Identifier: Apache-2.0
#include "softgpu/lower/segment_entry.h"

#include <algorithm>
#include <cstddef>

#include "softgpu/abi.h"
#include "softgpu/lower/ir_text.h"

namespace rgpu::softgpu::lower {

namespace {

constexpr char kAttributes[] = " nounwind null_pointer_is_valid \"probe-stack\"=\"inline-asm\" ";

std::string at(const char *value, const char *base, size_t offset)
{
    return join("  %", value, ".at = getelementptr i8, ptr %", base, ", i64 ",
                std::to_string(offset), "\n");
}

bool waits_before(const Segments &segments, const Segment &s)
{
    return s.cut != Segment::kStart && segments.steps[s.cut] == Step::waits;
}

std::string step_to(uint32_t segment)
{
    return std::to_string(waiting_at(WarpOp::step, 0, segment));
}

// lanes_at: which of the lanes stand at the place. may_go: do any, and none at an earlier one?
std::string lanes_at()
{
    const std::string range =
        "  %count64 = zext i32 %count to i64\n  %first64 = zext i32 %first to i64\n"
        "  %past = shl i64 1, %count64\n  %low = sub i64 %past, 1\n"
        "  %lanes64 = shl i64 %low, %first64\n  %lanes = trunc i64 %lanes64 to i32\n";
    auto lanes = [](const char *name, const char *comparison, const char *a, const char *b) {
        return join("  %", name, ".are = icmp ", comparison, " <32 x i32> %", a, ", %", b, "\n  %",
                    name, ".all = bitcast <32 x i1> %", name, ".are to i32\n  %", name,
                    " = and i32 %", name, ".all, %lanes\n");
    };
    auto splat = [](const char *name, const char *value) {
        return join("  %", name, ".one = insertelement <32 x i32> poison, i32 ", value,
                    ", i64 0\n  %", name, " = shufflevector <32 x i32> %", name,
                    ".one, <32 x i32> poison, <32 x i32> zeroinitializer\n");
    };
    const std::string load = at("next", "w", offsetof(WarpState, next)) +
                             "  %next = load <32 x i32>, ptr %next.at, align 4\n";
    constexpr char kHead[] =
        "(ptr %w, i32 %first, i32 %count, i32 %place) alwaysinline nounwind {\n";
    return join("define internal i32 @lanes_at", kHead, range, load, splat("wanted", "%place"),
                lanes("there", "eq", "next", "wanted"), "  ret i32 %there\n}\n\n",
                "define internal i1 @may_go", kHead, range, load, splat("wanted", "%place"),
                lanes("there", "eq", "next", "wanted"), splat("mask", "65535"),
                "  %segments = and <32 x i32> %next, %mask\n"
                "  %segment = and <32 x i32> %wanted, %mask\n",
                lanes("before", "ult", "segments", "segment"),
                "  %any = icmp ne i32 %there, 0\n  %none = icmp eq i32 %before, 0\n"
                "  %may = and i1 %any, %none\n  ret i1 %may\n}\n\n");
}

// Lanes that have come to a step further on: no call of the engine between.
std::string go_on(const Segments &segments, uint32_t number)
{
    const Segment &segment = segments.all[number];
    std::string s;
    uint32_t count = 0;
    for (uint32_t k = 0; k < segments.all.size(); ++k) {
        const Segment &next = segments.all[k];
        if (!waits_before(segments, next) || !segment.members[next.cut] ||
            (segment.cut != Segment::kStart && next.cut <= segment.cut))
            continue;
        const std::string n = std::to_string(count), then = std::to_string(count + 1);
        s += join("step", n, ":\n  %may", n,
                  " = call i1 @may_go(ptr %w, i32 %first, i32 %count, i32 ", step_to(k),
                  ")\n  br i1 %may", n, ", label %go", n, ", label %step", then, "\ngo", n,
                  ":\n  call void @\"row.", std::to_string(k),
                  "\"(ptr %w, i32 %first, i32 %count, i32 %x0, i32 %y, i32 %z)\n  br label %step",
                  then, "\n");
        ++count;
    }
    if (!count) return "  ret void\n}\n\n";
    return join(at("whole", "w", offsetof(WarpState, whole)),
                "  %whole = load i32, ptr %whole.at\n  %goes = icmp ne i32 %whole, 0\n"
                "  br i1 %goes, label %step0, label %step",
                std::to_string(count), "\n", s, "step", std::to_string(count),
                ":\n  ret void\n}\n\n");
}

// The loop over lanes whose %tid.x follow on each other.
std::string row(const std::string &kernel, const Segments &segments, uint32_t number,
                const ptx::Body &body, bool parallel)
{
    const Segment &segment = segments.all[number];
    const std::string k = std::to_string(number);
    // A thread's own variables lie behind it, and are reached by other ways, too.
    bool reached = false;
    for (const ptx::Variable &v : body.variables) reached |= v.space == ptx::Space::local;
    std::string s =
        join("define internal void @\"row.", k, "\"(ptr ", reached ? "" : "noalias ",
             "nonnull dereferenceable(", std::to_string(sizeof(WarpState) + segments.frame_bytes),
             ") %w, i32 %first, i32 %count, i32 %x0, i32 %y, i32 %z) noinline", kAttributes,
             "{\nentry:\n  %ts = alloca [", std::to_string(sizeof(ThreadState) + 16),
             " x i8], align 16\n"
             "  %block = load ptr, ptr %w, !nonnull !0, !dereferenceable !5\n"
             "  store ptr %block, ptr %ts\n");
    s += at("warp.of", "w", offsetof(WarpState, warp));
    s += "  %warp = load i32, ptr %warp.of.at\n";
    const std::pair<const char *, size_t> fields[] = {
        {"tx", offsetof(ThreadState, tid_x)},  {"ty", offsetof(ThreadState, tid_y)},
        {"tz", offsetof(ThreadState, tid_z)},  {"lane", offsetof(ThreadState, lane)},
        {"warp", offsetof(ThreadState, warp)}, {"wrong", sizeof(ThreadState)}};
    for (auto [n, offset] : fields) s += at(n, "ts", offset);
    s += "  store i32 %y, ptr %ty.at\n  store i32 %z, ptr %tz.at\n"
         "  store i32 %warp, ptr %warp.at\n  store i32 0, ptr %wrong.at\n"
         "  %first64 = zext i32 %first to i64\n";
    // Behind a step some of the lanes may stand elsewhere.
    const bool some = waits_before(segments, segment);
    if (some)
        s += join("  %here = call i32 @lanes_at(ptr %w, i32 %first, i32 %count, i32 ",
                  step_to(number),
                  ")\n  %leader = call i32 @llvm.cttz.i32(i32 %here, i1 true)\n"
                  "  %leader64 = zext i32 %leader to i64\n");
    std::string uniform;
    for (uint32_t r : segment.kept) {
        if (segments.varies[r]) continue;
        const Type t = body.registers[r].type;
        const std::string type = t.kind == Type::pred ? "i8" : storage_type(t),
                          name = "u" + std::to_string(r);
        s += join("  %", name, ".of = getelementptr i8, ptr %w, i64 ",
                  std::to_string(sizeof(WarpState) + segments.place[r]), "\n  %", name,
                  ".at = getelementptr ", type, ", ptr %", name, ".of, i64 ",
                  some ? "%leader64" : "%first64", "\n  %", name, " = load ", type, ", ptr %", name,
                  ".at\n");
        uniform += join(", ", type, " %", name);
    }
    s += join("  br label %loop\n"
              "loop:\n  %i = phi i32 [ 0, %entry ], [ %i1, %",
              some ? "passed" : "loop",
              " ]\n"
              "  %x = add nuw nsw i32 %x0, %i\n  %lane = add nuw nsw i32 %first, %i\n"
              "  %lane64 = zext i32 %lane to i64\n",
              some ? "  %bits = lshr i32 %here, %lane\n  %is = trunc i32 %bits to i1\n"
                     "  br i1 %is, label %stands, label %passed\nstands:\n"
                   : "",
              "  store i32 %x, ptr %tx.at\n  store i32 %lane, ptr %lane.at\n"
              "  call void @\"f.",
              kernel, ".", k, "\"(ptr %ts, ptr %w, i64 %lane64", uniform, ")\n",
              some ? "  br label %passed\npassed:\n" : "",
              "  %i1 = add nuw nsw i32 %i, 1\n  %more = icmp ult i32 %i1, %count\n"
              "  br i1 %more, label %loop, label %done",
              parallel ? ", !llvm.loop !2\n" : "\n",
              "done:\n  %wrong = load i32, ptr %wrong.at\n  %bad = icmp ne i32 %wrong, 0\n"
              "  br i1 %bad, label %misaligned, label %end\n"
              "misaligned:\n  call void @rt_misaligned(ptr %block, i64 0)\n  unreachable\n"
              "end:\n",
              go_on(segments, number));
    return s;
}

}  // namespace

std::string segments_entry(const std::string &kernel, const Segments &segments,
                           const ptx::Body &body, bool parallel)
{
    constexpr char kParameters[] = "(ptr %w, i32 %first, i32 %count, i32 %x, i32 %y, i32 %z)";
    std::string s, cases, calls;
    if (std::any_of(segments.all.begin(), segments.all.end(),
                    [&](const Segment &k) { return waits_before(segments, k); }))
        s = lanes_at();
    for (uint32_t k = 0; k < segments.all.size(); ++k) {
        const std::string n = std::to_string(k);
        s += row(kernel, segments, k, body, parallel);
        cases += join(" i32 ", n, ", label %S", n);
        calls +=
            join("S", n, ":\n  tail call void @\"row.", n, "\"", kParameters, "\n  ret void\n");
    }
    s += join("define internal void @segments(ptr %w, i32 %segment, i32 %first, i32 %count, i32 "
              "%x, i32 %y, i32 %z)",
              kAttributes, "{\n  switch i32 %segment, label %none [", cases, " ]\n", calls,
              "none:\n  unreachable\n}\n\n");
    s += join("define void @\"k.", kernel, "\"(ptr noalias nonnull dereferenceable(",
              std::to_string(sizeof(BlockState)), ") %block)", kAttributes,
              "{\n  call void @rt_run_warps(ptr %block, ptr @segments, i32 ",
              std::to_string(segments.frame_bytes), ")\n  ret void\n}\n\n");
    return s;
}

}  // namespace rgpu::softgpu::lower
