#include "softgpu/lower/segment_entry.h"

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
    std::string uniform;
    for (uint32_t r : segment.kept) {
        if (segments.varies[r]) continue;
        const Type t = body.registers[r].type;
        const std::string type = t.kind == Type::pred ? "i8" : storage_type(t),
                          name = "u" + std::to_string(r);
        s += join("  %", name, ".of = getelementptr i8, ptr %w, i64 ",
                  std::to_string(sizeof(WarpState) + segments.place[r]), "\n  %", name,
                  ".at = getelementptr ", type, ", ptr %", name, ".of, i64 %first64\n  %", name,
                  " = load ", type, ", ptr %", name, ".at\n");
        uniform += join(", ", type, " %", name);
    }
    s += join("  br label %loop\n"
              "loop:\n  %i = phi i32 [ 0, %entry ], [ %i1, %loop ]\n"
              "  %x = add nuw nsw i32 %x0, %i\n  %lane = add nuw nsw i32 %first, %i\n"
              "  %lane64 = zext i32 %lane to i64\n"
              "  store i32 %x, ptr %tx.at\n  store i32 %lane, ptr %lane.at\n"
              "  call void @\"f.",
              kernel, ".", k, "\"(ptr %ts, ptr %w, i64 %lane64", uniform,
              ")\n"
              "  %i1 = add nuw nsw i32 %i, 1\n  %more = icmp ult i32 %i1, %count\n"
              "  br i1 %more, label %loop, label %done",
              parallel ? ", !llvm.loop !2\n" : "\n",
              "done:\n  %wrong = load i32, ptr %wrong.at\n  %bad = icmp ne i32 %wrong, 0\n"
              "  br i1 %bad, label %misaligned, label %end\n"
              "misaligned:\n  call void @rt_misaligned(ptr %block, i64 0)\n  unreachable\n"
              "end:\n  ret void\n}\n\n");
    return s;
}

}  // namespace

std::string segments_entry(const std::string &kernel, const Segments &segments,
                           const ptx::Body &body, bool parallel)
{
    constexpr char kParameters[] = "(ptr %w, i32 %first, i32 %count, i32 %x, i32 %y, i32 %z)";
    std::string s, cases, calls;
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
