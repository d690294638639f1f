// SPDX-License-Identifier: Apache-2.0
// What this program said about its managed memory. Any thread.
#pragma once

#include "calls/advice.h"

namespace rgpu::interpose {

calls::Advices &advices();

}  // namespace rgpu::interpose
