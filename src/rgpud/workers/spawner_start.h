// SPDX-License-Identifier: Apache-2.0
// What root prepares for rgpu-spawner, from rgpu.conf: all that the spawner allows, its socket, its
// folders, and the cgroups' directories. It then knows no file and no name, and parses nothing.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "spawner/protocol.h"
#include "util/config.h"
#include "util/fd.h"
#include "util/result.h"

namespace rgpu::serverd {

std::string spawner_path(const RgpudConfig &config);
// Its program, and the folder that tells whose it is.
std::vector<std::string> spawner_command(const RgpudConfig &config);

// As rgpu.conf has it for an rgpud that is `user`, without what the host decides.
Result<spawner::Settings> spawner_settings(const RgpudConfig &config, uid_t user);
// Where a running spawner's differ: keys of rgpu.conf. Empty: nowhere.
std::string differences(const spawner::Settings &running, const spawner::Settings &wanted);

// For root: the descriptors that it finds at 3 and behind. `once`: it ends with the rgpud that
// starts it, and the last worker. Says in the log what this host does not have.
Result<std::vector<Fd>> prepare_spawner(const RgpudConfig &config, uid_t user, bool once);
// For root: becomes the spawner, and returns only where that fails.
Error become_spawner(const RgpudConfig &config, uid_t user);

}  // namespace rgpu::serverd
