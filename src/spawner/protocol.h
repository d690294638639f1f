// SPDX-License-Identifier: Apache-2.0
// What root tells rgpu-spawner when it starts it; what rgpud asks it for, and what it is answered:
// doc/spawner.md.
#pragma once

#include <cstddef>
#include <cstdint>

#include "util/child.h"

namespace rgpu::spawner {

// Names of groups and of workers: hex digits, no NUL.
inline constexpr size_t kKeyBytes = 64, kNameBytes = 16;
// Supplementary groups; names in /dev, with a NUL each; what a worker is given.
inline constexpr size_t kMostGroupIds = 64, kMostDevices = 64, kDeviceBytes = 32;
inline constexpr size_t kMostDescriptors = 96, kMostEnvironment = 32 * 1024, kMostVariables = 256;
inline constexpr uint32_t kNone = UINT32_MAX;  // of user and group ids

// All that the spawner allows follows from this. It finds it at descriptor 3; at 4 the socket where
// it listens, at 5 and 6 the folders of users' caches and images, and at 7 the rgpud that started
// it, if that did.
struct Settings {
    char worker[256], state[256];        // the one program that it starts; rgpud's state_dir
    char cgroups[3][256];                // where rgpud makes cgroups: of v2, or v1's, each
    uint32_t user;                       // rgpud's, who alone may ask
    uint32_t pool_low, pool_high;        // users for jobs whose owners this host does not know
    uint32_t worker_user, worker_group;  // allowed beside users and the pool, root too
    uint32_t groups[kMostGroupIds];      // allowed though the host's own; the rest is kNone
    uint32_t v2;                         // of cgroups
    uint32_t namespaces;                 // groups have namespaces of their own
    uint32_t once;                       // it ends when rgpud has gone and no group is left
};

enum class What : uint32_t { hello = 1, group, start, signal, reap, end, list };

// One packet of a SOCK_SEQPACKET socket. Of the environment only what is used is sent.
struct Request {
    What what;
    int32_t signal;                         // signal: SIGTERM or SIGKILL
    char key[kKeyBytes], name[kNameBytes];  // list: answered is the entry behind this one
    uint32_t uid, gid;                      // group: as whom its workers run
    uint32_t owner;  // group: whose images they keep: images/OWNER; not of a user of the pool
    uint32_t id_count, device_count;
    uint32_t ids[kMostGroupIds];
    char devices[kMostDevices][kDeviceBytes];
    uint32_t environment_bytes;          // start
    ProcessLimits limits;                // start
    Processors cpus;                     // start
    char environment[kMostEnvironment];  // start: "NAME=VALUE" and a NUL, each
};

// Each request gets one; with it goes a worker's pidfd, for start and list.
struct Answer {
    int32_t error;                          // of errno; 0: done
    int32_t pid;                            // start, list: as the spawner's pid namespace has it
    int32_t status;                         // reap: as waitpid(2) gives it
    uint32_t uid;                           // list: the group's
    char key[kKeyBytes], name[kNameBytes];  // list: which; a group itself has no name
    Settings settings;                      // hello
};

}  // namespace rgpu::spawner
