// SPDX-License-Identifier: Apache-2.0
// The handlers that are written by hand: own::cuX for every line of the table with code server or
// both.
#pragma once

#include "worker/session/session.h"

namespace rgpu::worker::own {

#define ROW(symbol, ...) Result<void> symbol(Session &, Call &);
#include "calls/table.def"

}  // namespace rgpu::worker::own
