// Which graph a graph node, or the graph inside a child graph node, belongs to: with the graph its handles end.
#pragma once

#include <vector>

#include "interpose/handles.h"

namespace rgpu::interpose {

// `part` is of `graph` (both numbers). Any thread, like all here.
void belongs(HandleId part, HandleId graph);
// The graph of a part; 0 when it has none.
HandleId owner_of(HandleId part);
// Ends the handles of everything that belongs to the graph, and what belongs to that; their numbers.
std::vector<HandleId> end_parts(HandleId graph);

}  // namespace rgpu::interpose
