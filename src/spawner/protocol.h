// What rgpud asks rgpu-spawner for, and what it is answered: doc/spawner.md.
//
// One packet of a SOCK_SEQPACKET socket is one request, and gets one answer. All are structs of
// fixed size but the environment at the end of Start, whose bytes are counted.
#pragma once

#include <cstddef>
#include <cstdint>

#include "spawner/limits.h"

namespace rgpu::spawner {

enum class What : uint32_t { hello = 1, group, start, signal, reap, end, list };

inline constexpr size_t kKeyBytes = 64;      // names a group: hex digits, no NUL
inline constexpr size_t kNameBytes = 16;     // names a worker: hex digits, no NUL
inline constexpr size_t kMostGroupIds = 64;  // supplementary groups
inline constexpr size_t kMostDevices = 64;
inline constexpr size_t kDeviceBytes = 32;  // a name in /dev, with its NUL
inline constexpr size_t kMostDescriptors = 96;
inline constexpr size_t kMostEnvironment = 32 * 1024;
inline constexpr size_t kMostVariables = 256;

// hello, list, signal, reap, end. list answers with the entry behind `key` and `name`.
struct Plain {
    What what;
    int32_t signal;
    char key[kKeyBytes], name[kNameBytes];
};

// Makes what the workers of one job share, or adds devices to it where it is there already.
struct Group {
    What what;
    uint32_t uid, gid, id_count, device_count;
    uint32_t owner;  // whose images they keep: images/OWNER; not of a user of the pool
    Limits limits;
    uint32_t ids[kMostGroupIds];
    char key[kKeyBytes];
    char devices[kMostDevices][kDeviceBytes];
};

// Starts a worker in a group. The packet's first descriptor becomes its stderr, the others 3, 4 ...
struct Start {
    What what;
    uint32_t environment_bytes;
    char key[kKeyBytes], name[kNameBytes];
    uint64_t cpus[16];                   // one bit each; none: any
    char environment[kMostEnvironment];  // "NAME=VALUE" and a NUL, each; only what is used is sent
};

// start and list send the worker's pidfd with it.
struct Answer {
    int32_t error;                          // of errno; 0: done
    int32_t pid;                            // start, list: as the spawner's pid namespace has it
    int32_t status;                         // reap: as waitpid(2) gives it
    uint32_t isolated;                      // hello: groups have namespaces of their own
    uint64_t settings;                      // hello: of its command line (settings_of)
    uint32_t uid;                           // list: the group's
    char key[kKeyBytes], name[kNameBytes];  // list: which; a group itself has no name
};

// Tells command lines apart (FNV-1a).
inline uint64_t add_setting(uint64_t hash, const char *text)
{
    do hash = (hash ^ static_cast<unsigned char>(*text)) * 0x100000001b3u;
    while (*text++);
    return hash;
}

}  // namespace rgpu::spawner
