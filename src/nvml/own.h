// The functions that functions.cc carries out: own::nvmlX for each line OWN(nvmlX) of
// functions.def, with nvml.h's prototype.
#pragma once

#include "nvml/api.h"

namespace rgpu::nvml::own {

#define OWN(name) decltype(::name) name [[gnu::visibility("hidden")]];
#include "nvml/functions.def"
#undef OWN
#undef NONE

}  // namespace rgpu::nvml::own
