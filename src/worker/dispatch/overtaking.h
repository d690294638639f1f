// SPDX-License-Identifier: Apache-2.0
// Which calls may be carried out while large copies to the host are open (copies.h): those of other
// streams that no order binds to these. What belongs behind such a copy is done there where that is
// known how; before any other call the copies are closed.
//
// That one overtakes is no more than what streams promise: the copy takes longer to begin.
// Dispatcher only.
#pragma once

#include "worker/session/session.h"

namespace rgpu::worker {

// Before a call is carried out while copies are open. True: it has been answered, or will be done
// behind them.
bool stays_behind(Session &, Call &);

}  // namespace rgpu::worker
