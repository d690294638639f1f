// SPDX-License-Identifier: Apache-2.0
// The log of the daemons: one line an event, on stderr, with time and level.
//
// No secret is ever logged; leases are named by the first eight digits of their id. Any thread
// may log. Control characters in a line come out as '?', so that no text from outside can make
// a second line.
#pragma once

#include <string>

namespace rgpu {

enum class LogLevel { debug, info, warning, error };

// Called once, before the first line: nothing below `least` is written. `program` stands in each
// line.
void open_log(const char *program, LogLevel least);

[[gnu::format(printf, 1, 2)]] void log_debug(const char *format, ...);
[[gnu::format(printf, 1, 2)]] void log_info(const char *format, ...);
[[gnu::format(printf, 1, 2)]] void log_warning(const char *format, ...);
[[gnu::format(printf, 1, 2)]] void log_error(const char *format, ...);

// The part of a lease's or an offer's id that the log shows.
inline std::string short_id(const std::string &id) { return id.substr(0, 8); }

}  // namespace rgpu
