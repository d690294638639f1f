// SPDX-License-Identifier: Apache-2.0
// Descriptors that name memory of the GPU server, for other processes of the job: what a program
// gets where a driver would give it a descriptor of memory.
//
// Each is a sealed file in memory with the server's name for it (wire/shareable.h), and is passed
// on, copied and closed like any other. A driver frees memory once its descriptors are closed, too:
// take_closed() finds those that no process has any more. Any thread.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "util/fd.h"
#include "util/result.h"

namespace rgpu::interpose::shareable {

// A descriptor for the program that holds this name of a server's. Fails with `exhausted`.
Result<Fd> make(std::string_view name, unsigned server);

// The name in a descriptor; nothing where it is none that make() made, in whatever process. Reads
// nothing that another descriptor would miss.
std::optional<std::string> name_in(int fd);

struct Closed {
    std::string name;
    unsigned server = 0;
};
// Forgets, and returns, names whose descriptors are closed in all processes. Looks at `most` at
// most, at others each time.
std::vector<Closed> take_closed(size_t most);
// Whether make() was ever called.
bool any();

}  // namespace rgpu::interpose::shareable
