// SPDX-License-Identifier: Apache-2.0
// The namespaces of a group (PID, IPC, mounts): a first process of ours, and what it sees in /dev.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

#include "spawner/protocol.h"

namespace rgpu::spawner {

// Whether a worker may ever see /dev/NAME.
bool is_device(const std::string &name);

// A process that does nothing but to reap orphans, and ends with this program; with namespaces of
// its own, unless it is to have none. -1: with errno.
pid_t make_init(bool isolated);
// In its namespaces (its pidfd): mounts what a group sees, but no device. Of the host's folders it
// can write below those alone; `own` becomes a file system of this user's, where it is not empty.
// False, with errno: it is not whole.
bool furnish(int init, const Settings &settings, const std::vector<std::string> &writable,
             const std::string &own, uid_t uid);
// Puts devices into the /dev there; what is there already, or the host has not, is left out.
bool add_devices(int init, const std::vector<std::string> &names);

// Runs it in a child, which waits for nothing of a tenant's, and leaves its errno here.
bool in_child(int init, const std::function<bool()> &body);
// Runs it with what is forked then in the PID namespace of `init`; -1: in this program's.
pid_t fork_in(int init, const std::function<pid_t()> &fork);

}  // namespace rgpu::spawner
