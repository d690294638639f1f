// SPDX-License-Identifier: Apache-2.0
// rt_function: calls of functions whose code is made when the first thread comes to it.
#include <cinttypes>
#include <string>

#include "softgpu/exec/block.h"
#include "softgpu/exec/report.h"
#include "util/format.h"

using namespace rgpu::softgpu;
using namespace rgpu::softgpu::exec;

namespace rgpu::softgpu::exec {

namespace {

FaultKind kind_of(const Error &e)
{
    switch (e.kind) {
    case ErrorKind::invalid: return FaultKind::trap;
    case ErrorKind::exhausted: return FaultKind::out_of_resources;
    default: return FaultKind::illegal_instruction;
    }
}

}  // namespace

void Block::serve(const LateCall &call)
{
    auto code = grid->code.functions.make(call.address, call.signature);
    if (!code)
        grid->fail(kind_of(code.error()), 0,
                   code.error().text + ", in " + where(*this, *call.caller));
}

}  // namespace rgpu::softgpu::exec

// The compiler needs more stack than a fiber has, so the fiber lets the scheduler call it.
// Meanwhile it owns nothing: a grid that fails never comes back to it. When it does come back it
// may be on another OS thread.
void *rt_function(rgpu_thread *t, uint64_t address, uint64_t signature)
{
    Fiber &f = fiber_of(t);
    const FunctionTable &table = f.block->grid->code.functions;
    for (;;) {
        if (uint64_t code = table.find(address, signature)) return reinterpret_cast<void *>(code);
        f.block->worker->late_call = LateCall{&f, address, signature};
        f.block->visit_scheduler();
    }
}
