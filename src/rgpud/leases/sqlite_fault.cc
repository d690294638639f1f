// SPDX-License-Identifier: Apache-2.0
#include "rgpud/leases/sqlite_fault.h"

#include <signal.h>
#include <sqlite3.h>

#include <cstdlib>
#include <cstring>

#include "util/units.h"

namespace rgpu::serverd {
namespace {

int64_t writes_left = 0;
bool torn = false;

// SQLite's own file follows this in memory.
struct FaultFile {
    sqlite3_file base;
    sqlite3_file *real() { return reinterpret_cast<sqlite3_file *>(this + 1); }
};

sqlite3_vfs *real_vfs()
{
    static sqlite3_vfs *vfs = sqlite3_vfs_find(nullptr);
    return vfs;
}

FaultFile *fault(sqlite3_file *file) { return reinterpret_cast<FaultFile *>(file); }

const sqlite3_io_methods *methods(sqlite3_file *file) { return fault(file)->real()->pMethods; }

bool is_the_last() { return --writes_left == 0; }

int write(sqlite3_file *file, const void *bytes, int count, sqlite3_int64 at)
{
    if (is_the_last()) {
        if (torn) methods(file)->xWrite(fault(file)->real(), bytes, count / 2, at);
        raise(SIGKILL);
    }
    return methods(file)->xWrite(fault(file)->real(), bytes, count, at);
}

int sync(sqlite3_file *file, int flags)
{
    if (is_the_last()) raise(SIGKILL);
    return methods(file)->xSync(fault(file)->real(), flags);
}

int truncate(sqlite3_file *file, sqlite3_int64 size)
{
    if (is_the_last()) raise(SIGKILL);
    return methods(file)->xTruncate(fault(file)->real(), size);
}

// What goes through unchanged.
#define PASS(name, parameters, ...) \
    [] parameters { return methods(file)->name(fault(file)->real(), ##__VA_ARGS__); }

// Version 1 has no shared memory: the file is opened exclusively.
const sqlite3_io_methods kMethods = {
    1,
    PASS(xClose, (sqlite3_file * file)),
    PASS(xRead, (sqlite3_file * file, void *to, int count, sqlite3_int64 at), to, count, at),
    write,
    truncate,
    sync,
    PASS(xFileSize, (sqlite3_file * file, sqlite3_int64 *size), size),
    PASS(xLock, (sqlite3_file * file, int level), level),
    PASS(xUnlock, (sqlite3_file * file, int level), level),
    PASS(xCheckReservedLock, (sqlite3_file * file, int *held), held),
    PASS(xFileControl, (sqlite3_file * file, int what, void *value), what, value),
    PASS(xSectorSize, (sqlite3_file * file)),
    PASS(xDeviceCharacteristics, (sqlite3_file * file)),
    nullptr,
    nullptr,
    nullptr,
    nullptr,
    nullptr,
    nullptr,
};
#undef PASS

int open_file(sqlite3_vfs *, const char *name, sqlite3_file *file, int flags, int *out)
{
    int code = real_vfs()->xOpen(real_vfs(), name, fault(file)->real(), flags, out);
    file->pMethods = code == SQLITE_OK ? &kMethods : nullptr;
    return code;
}

}  // namespace

Result<const char *> fault_vfs()
{
    const char *wanted = getenv("RGPU_TEST_KILL_AT_WRITE");
    if (!wanted || !*wanted) return nullptr;
    std::string text = wanted;
    torn = text.ends_with(":torn");
    Result<int64_t> number = parse_integer(text.substr(0, text.find(':')), 1, INT64_MAX);
    if (!number) return std::move(number).error().in("RGPU_TEST_KILL_AT_WRITE");
    writes_left = *number;
    static sqlite3_vfs vfs = *real_vfs();
    vfs.pNext = nullptr;
    vfs.zName = "rgpu-fault";
    vfs.szOsFile = static_cast<int>(sizeof(FaultFile)) + real_vfs()->szOsFile;
    vfs.xOpen = open_file;
    sqlite3_vfs_register(&vfs, 0);
    return vfs.zName;
}

}  // namespace rgpu::serverd
