// SPDX-License-Identifier: Apache-2.0
// CUDA's user objects: reference counts on something of the program's, held by the program, its
// graphs and its executable graphs. They live here; the server knows nothing of them (CUDA Driver
// API, cuUserObjectCreate).
#pragma once

#include "interpose/state/handles.h"

namespace rgpu::interpose {

// `to` (a graph or executable graph, by number) holds from now on what `from` holds. Any thread,
// like all here.
void retain_objects_of(HandleId to, HandleId from);
// The graph has ended: its references with it.
void release_objects(HandleId graph);
// The executable graph was given to a stream.
void objects_in_use(HandleId exec, CUstream stream);
// The executable graph was destroyed: its references end when its last launch is over.
void release_objects_when_idle(HandleId exec);

}  // namespace rgpu::interpose
