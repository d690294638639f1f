// SPDX-License-Identifier: Apache-2.0
// What `--version` of rgpu's programs prints.
#pragma once

#include <string>

namespace rgpu {

// "rgpud 0.1.0 (commit 1234567890ab)": the release, from configure.ac, and the commit. A source
// tree that is neither a clone nor a release's tarball has no commit: "rgpud 0.1.0".
std::string version_line(const char *program);

// "1234567890ab"; empty: it is not known.
const char *commit();

}  // namespace rgpu
