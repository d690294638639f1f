// SPDX-License-Identifier: Apache-2.0
// What the entry of a kernel that is cut calls.
#include "softgpu/exec/block.h"
#include "softgpu/exec/report.h"

using namespace rgpu::softgpu;
using namespace rgpu::softgpu::exec;

void rt_run_warps(rgpu_block *state, rgpu_segments *code, uint32_t frame_bytes)
{
    Block &b = block_of(state);
    if (!b.segments) b.segments = std::make_unique<SegmentRun>();
    if (!b.segments->run(*b.grid, *state, code, frame_bytes))
        b.grid->fail(FaultKind::deadlock, 0, describe_deadlock(*state, b.segments->waiting()));
}
