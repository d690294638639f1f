// SPDX-License-Identifier: Apache-2.0
// CPU exceptions in kernels become faults of their grid; everybody else's go to whoever handled
// them before.
//
// A handler only touches its own OS thread's Worker; the first scope of a process installs it.
#pragma once

#include "softgpu/exec/worker.h"

namespace rgpu::softgpu::exec {

// Makes this OS thread a worker while it lives: its exceptions on a kernel's stack are the grid's.
struct WorkerScope {
    explicit WorkerScope(uint32_t sm_id);
    ~WorkerScope();
    WorkerScope(const WorkerScope &) = delete;
    WorkerScope &operator=(const WorkerScope &) = delete;

    Worker worker;

private:
    Worker *outer_;
};

}  // namespace rgpu::softgpu::exec
