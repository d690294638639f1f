// The namespaces of a group (PID, IPC, mounts): a first process of ours, and what it sees in /dev.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "util/fd.h"
#include "util/result.h"

namespace rgpu::spawner {

// A device file or folder of the host's /dev, by which it can be put into another.
struct Device {
    std::string name;
    bool folder = false;
    Fd tree;
};

// Whether a worker may ever see /dev/NAME.
bool is_device(const std::string &name);
// Those of the names that the host has. Fails when one cannot be opened.
Result<std::vector<Device>> open_devices(const std::vector<std::string> &names);

struct Init {
    pid_t pid = 0;
    Fd process;
};
// A process with namespaces of its own, in which all is mounted. It does nothing but to reap
// orphans, and ends with this program. `own` is a folder that becomes a file system of this
// user's alone; empty: none.
Result<Init> make_namespaces(const std::vector<Device> &devices, const std::string &own, uid_t uid);
// Puts more into the /dev there.
Result<void> add_devices(const Init &init, const std::vector<Device> &devices);

// No capability is left, nor can be had again.
bool drop_capabilities();

}  // namespace rgpu::spawner
