// SPDX-License-Identifier: Apache-2.0
// Slurm's configuration files as Slurm reads them: lines `Key=Value Key=Value ...`, with comments,
// continuation by a backslash, escapes, quotes and `Include FILE`. Slurm's reader is
// src/common/parse_config.c; slurm.conf(5) tells less.
//
// Each value knows its place in the file's bytes, so that a file can be changed without touching
// anything else of it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "util/result.h"

namespace rgpu::slurm {

struct ConfSetting {
    std::string key;         // as written; keys have no case
    std::string value;       // without quotes and escapes
    size_t at = 0, end = 0;  // the value's bytes in the text, without quotes
};

// A line with what continues it. Slurm takes one key of a line, and what follows belongs to that:
// NodeName=cn1 CPUs=4.
struct ConfEntry {
    std::vector<ConfSetting> settings;  // empty for an include
    std::string include;                // the file that it names
    size_t line = 0;                    // of its beginning, from 1
    size_t at = 0, end = 0;             // its bytes, with the end of the line
    size_t tail = 0;                    // where another setting can be put: behind the last one

    // The first setting of this name; null where it has none.
    const ConfSetting *find(std::string_view key) const;
};

bool same_key(std::string_view a, std::string_view b);

// What Slurm would not understand is left out.
std::vector<ConfEntry> parse_conf(std::string_view text);

// What is appended to such a text would continue its last line.
bool ends_open(std::string_view text);

// A value as it must be written.
std::string conf_escaped(std::string_view value);

// --- a file with those that it includes

struct ConfFile {
    std::string path;  // as it was named
    std::string real;  // without links: what is written
    bool exists = true;
    std::string text;
};

struct PlacedEntry {
    size_t file = 0;
    ConfEntry entry;
};

struct Conf {
    std::vector<ConfFile> files;       // the first is the one that was asked for
    std::vector<PlacedEntry> entries;  // in the order in which Slurm reads them

    // The line with this key that counts: the last one.
    const PlacedEntry *last(std::string_view key) const;
    // Its value, or nothing.
    std::optional<std::string> value(std::string_view key) const;
};

// Reads the file, and what it includes: a file without leading / lies where the first one is.
// `cluster` is what %c stands for until a ClusterName was read. A first file that is not there
// reads as an empty one with exists = false. Fails, naming the file and the line, where Slurm
// would.
Result<Conf> read_conf(const std::string &path, const std::string &cluster = {});

// Without links; of what is not there the path itself.
std::string real_path(const std::string &path);

// The bytes of a file; ErrorKind::unavailable where it is not there.
Result<std::string> read_bytes(const std::string &path);

}  // namespace rgpu::slurm
