// SPDX-License-Identifier: Apache-2.0
// What is part of something else and ends with it: nodes of a graph, the graph inside a child graph
// node, functions of a module, kernels of a library.
#pragma once

#include <vector>

#include "interpose/state/handles.h"

namespace rgpu::interpose {

// `part` is of `whole` (both numbers). Any thread, like all here.
void belongs(HandleId part, HandleId whole);
// What a part is of; 0 when it is of nothing.
HandleId owner_of(HandleId part);
// The parts, and what is part of them. Their handles are still live: they end, by end_parts(), when
// the end of the whole is on its way to the server. Another thread that got one of the numbers
// before would lose its object there. Those with the server's numbers end here: the server gives
// them to others when it hears of the end.
std::vector<HandleId> take_parts(HandleId whole);
void end_parts(const std::vector<HandleId> &);
// Ends the handles of what was made in a context that has ended.
void end_made_in(HandleId context);

}  // namespace rgpu::interpose
