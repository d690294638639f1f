// SPDX-License-Identifier: Apache-2.0
// Changes to configuration files: made from edits, kept on the disk, and taken back.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "util/result.h"

namespace rgpu::slurm {

// Bytes of a file before and after: lines, with their ends. Nothing of `before`: they were added.
struct Hunk {
    size_t before_at = 0, before_size = 0;
    size_t after_at = 0, after_size = 0;
};

struct ChangedFile {
    std::string path;  // as people name it
    std::string real;  // what is written: no link
    bool existed = true;
    std::string before, after;
    std::vector<Hunk> hunks;  // in the order of the file
};

// What the file is without the change. `now` may be `after`, or differ from it in lines that the
// change does not know: those stay. ErrorKind::invalid, naming the line, where one of its lines is
// not there any more, or twice.
Result<std::string> taken_back(const ChangedFile &change, const std::string &now);

// Replaces files, all or none of those that can be known before: each is written under another name
// beside its place, with the owner and the mode of what it replaces (0644, and the owner of `like`,
// where there is none), and then renamed.
struct FileWrite {
    std::string real;
    std::string text;
    bool remove = false;
};
Result<void> write_files(const std::vector<FileWrite> &files, const std::string &like);

// --- the record: what was changed, so that it can be taken back. A folder with one folder for each
// time.

// Where it is for a slurm.conf (without links).
std::string record_folder(const std::string &slurm_conf);
// The changes of each time, the first first. None where there is no record.
Result<std::vector<std::vector<ChangedFile>>> read_record(const std::string &folder);
Result<void> add_to_record(const std::string &folder, const std::vector<ChangedFile> &changes);
// Forgets all times but the first `keep`; with the last one the folder goes, where nothing else is
// in it.
Result<void> remove_from_record(const std::string &folder, size_t keep);

}  // namespace rgpu::slurm
