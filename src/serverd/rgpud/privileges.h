// What rgpud keeps of root's rights.
#pragma once

#include "util/result.h"

namespace rgpu::serverd {

// Before the first thread: gives up, for good, every capability but those for starting, signalling and confining workers of any user, for their
// files, for a low port, and for the kernel's log (health). Does nothing where rgpud has no capabilities.
Result<void> keep_needed_capabilities();

}  // namespace rgpu::serverd
