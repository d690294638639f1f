// SPDX-License-Identifier: Apache-2.0
// A fault point at each write of rgpud's journal, for the crash tests.
//
// RGPU_TEST_KILL_AT_WRITE=N in rgpud's environment ends it with SIGKILL in place of its Nth write,
// sync or truncation of the lease file and SQLite's files beside it; N:torn writes the first half
// of those bytes before.
#pragma once

#include "util/result.h"

namespace rgpu::serverd {

// The SQLite VFS to open the file with: null (SQLite's own) unless the variable is set.
Result<const char *> fault_vfs();

}  // namespace rgpu::serverd
