// SPDX-License-Identifier: Apache-2.0
// The functions that are answered: answers::nvmlX for each line ANSWER(nvmlX) of nvml.def,
// with nvml.h's prototype.
//
// Any thread may call them. No exception is caught here: exports.cc does that for C programs.
#pragma once

#include "nvml/api.h"

namespace rgpu::nvml::answers {

#define ANSWER(name) decltype(::name) name [[gnu::visibility("hidden")]];
#include "calls/nvml.def"

}  // namespace rgpu::nvml::answers
