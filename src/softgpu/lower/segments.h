// SPDX-License-Identifier: Apache-2.0
// Cuts a kernel whose threads meet into segments: the ways from a meeting to the next ones. Each is
// a loop over lanes; what a thread knows from one to the next lies in its warp's frame, and no
// thread needs a stack.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "softgpu/lower/flow.h"
#include "softgpu/lower/lockstep.h"
#include "softgpu/lower/unit.h"
#include "softgpu/ptx/ast.h"
#include "util/result.h"

namespace rgpu::softgpu::lower {

struct Segment {
    static constexpr uint32_t kStart = UINT32_MAX;
    // The meeting that it goes on behind, or the step that it begins with; kStart: the kernel's
    // start
    uint32_t cut = kStart;
    std::vector<uint8_t> members;  // for every instruction: does it belong here
    std::vector<uint32_t> again;   // instructions that are run again first, in their order
    std::vector<uint32_t> kept;    // registers that come from the frame
    std::vector<uint32_t> used;    // all registers that its code names
};

struct Segments {
    static constexpr uint32_t kNone = UINT32_MAX;
    std::vector<Segment> all;         // the first is the start
    std::vector<uint32_t> behind;     // for every instruction: the segment that it begins, or kNone
    std::vector<Step> steps;          // for every instruction
    std::vector<uint32_t> place;      // of each register in a warp's frame, if it is kept
    std::vector<uint32_t> variables;  // of each .local variable there: lane 0's
    std::vector<uint8_t> varies;      // registers, as Values has them
    uint32_t matrix = 0;              // where each lane's MatrixLane lies there, if it has any
    uint32_t frame_bytes = 0;
    bool level = false;  // all threads come to the same barriers, those that have ended aside
};

// How many lanes a warp's frame is for.
inline constexpr uint32_t kLanes = 32;
// Bytes of a register in the frame, and from a lane's variable to the next lane's.
uint32_t kept_bytes(ptx::Type);
uint32_t local_stride(const ptx::Variable &);

// RGPU_SOFTGPU_FIBERS=1 in the environment: no kernel is cut.
bool wants_fibers();

// Has the kernel no meetings, but lanes that must go in step?
bool needs_steps(const ptx::Body &);

// Fails with `unsupported` and the reason where the kernel's threads must be fibers.
Result<Segments> find_segments(const Unit &, const ptx::Function &, const ptx::Body &,
                               const Forms &);

}  // namespace rgpu::softgpu::lower
