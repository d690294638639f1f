// SPDX-License-Identifier: Apache-2.0
// Every exported symbol by its place in the call table.
#pragma once

#include "calls/calls.h"

namespace rgpu::softgpu::driver {

void *symbol_address(calls::CallId);

}  // namespace rgpu::softgpu::driver
