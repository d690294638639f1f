// What root told the spawner on its command line: all that it allows follows from this.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "util/fd.h"

namespace rgpu::spawner {

// Below it are a host's own accounts (UID_MIN, GID_MIN of login.defs(5)).
inline constexpr uid_t kFirstUser = 1000;

struct Settings {
    std::string socket, worker, state;
    uid_t user = 0;  // rgpud's, who alone may ask
    uid_t pool_low = 0, pool_high = 0;
    std::optional<uid_t> worker_user;  // allowed beside users and the pool, root too
    gid_t worker_group = 0;
    std::vector<gid_t> groups;  // allowed though below kFirstUser
    bool namespaces = true;
    bool once = false;   // ends when nobody is connected and no group is left
    int connected = -1;  // rgpud's connection
    uint64_t hash = 0;

    bool in_pool(uid_t uid) const { return uid >= pool_low && uid <= pool_high; }
    bool allows(uid_t uid) const;
    bool allows_group(uid_t uid, gid_t gid) const;
};

// The exit status where the command line is wrong or asks for words only.
std::optional<int> read_settings(int argc, char **argv, Settings &settings);

}  // namespace rgpu::spawner
