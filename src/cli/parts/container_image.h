// SPDX-License-Identifier: Apache-2.0
// What a container's root directory has of libraries, and where rgpu's must lie so that its loader
// finds them.
#pragma once

#include <string>
#include <vector>

#include "util/result.h"

namespace rgpu::cli {

// Where a path of the container leads below `rootfs`, as a path of the container without symbolic
// links: absolute links and ".." stay in the root, as they do for the container. The last parts
// need not be there. Fails on a loop of links.
Result<std::string> resolve_in(const std::string &rootfs, const std::string &path);

// Places for the library `name` ("libcuda.so.1"), each without links:
// - the directory of the image's libc, which its loader searches whatever LD_LIBRARY_PATH says;
// - wherever the image has a library of that name that its loader could take before: entries of
// ld.so.cache,
//   `search` (the image's LD_LIBRARY_PATH), /usr/local/cuda*/compat.
// Empty for an image without a libc.so.6: nothing in it can load the library.
std::vector<std::string> places_for(const std::string &rootfs, const std::string &name,
                                    const std::string &search);

// The newest version of glibc that the library file needs ("2.35"), where the image's libc.so.6
// does not have it; empty where it does, or where there is none.
std::string missing_glibc(const std::string &rootfs, const std::string &library);

}  // namespace rgpu::cli
