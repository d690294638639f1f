// The user that a worker runs as. Where rgpud is root, the worker is started as root and becomes that user as the first thing it does: until then it is
// no process of the user's, who could otherwise reach rgpud's memory through it (rgpud/process.h).
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

namespace rgpu::serverd {

struct Identity {
    uid_t uid = 0;
    gid_t gid = 0;
    std::vector<gid_t> groups;
};

// Where a worker finds it (environment): "uid:gid:group,group".
inline constexpr char kIdentityVariable[] = "RGPU_WORKER_IDENTITY";
std::string format_identity(const Identity &);
// Nothing: this is none.
std::optional<Identity> parse_identity(const std::string &);

// Gives up every right that the identity does not have; false, with errno, when that cannot be. Async-signal-safe; in a process with one thread.
bool become(const Identity &);

}  // namespace rgpu::serverd
