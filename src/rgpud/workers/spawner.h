// SPDX-License-Identifier: Apache-2.0
// rgpud's side of rgpu-spawner (doc/spawner.md), which starts workers for an rgpud without
// privileges.
//
// Any thread may call. A call waits for the spawner's answer, some milliseconds. One that is not
// there any more, or another in its place, is connected to at the next call.
#pragma once

#include <sys/types.h>

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "rgpud/host/account.h"
#include "rgpud/host/process.h"
#include "rgpud/workers/cgroup.h"
#include "spawner/protocol.h"
#include "util/config.h"
#include "util/fd.h"
#include "util/result.h"

namespace rgpu::serverd {

// What the workers of one job on this server share.
struct Group {
    std::string key;  // 64 digits of hex
    Account account;
    uid_t owner = 0;
    std::vector<std::string> devices;
    Limits limits{};
};

class Spawner {
public:
    // The one that answers there; nothing: none does.
    static std::shared_ptr<Spawner> connect(const RgpudConfig &config, uid_t user);
    // The same, started where none answers. For root, who becomes `user` afterwards.
    static Result<std::shared_ptr<Spawner>> start(const RgpudConfig &config, uid_t user);

    // Whether groups have namespaces of their own.
    bool isolates() const { return isolates_; }
    // One sentence for the log: how workers are limited.
    const std::string &limits_told() const { return cgroups_.told(); }

    // Makes the group and its cgroup; adds devices where it is there, and sets its limits.
    Result<void> make(const Group &group);
    struct Started {
        pid_t pid = 0;
        Fd process;
    };
    // Makes the group, too, where it is not there.
    Result<Started> start(const Group &group, const std::string &name, const Launch &launch);
    void signal(const std::string &key, const std::string &name, int number);
    // How it ended, as waitpid(2) has it; nothing: it has not, or is not known.
    std::optional<int> reap(const std::string &key, const std::string &name);
    // Ends all that is left of it. True: nothing is; else to be asked again.
    bool end(const std::string &key);

    struct Found {
        std::string key, name;  // a group itself has no name
        uid_t uid = 0;
        pid_t pid = 0;
        Fd process;
    };
    Result<std::vector<Found>> list();

private:
    Spawner(const RgpudConfig &config, Fd socket);
    Result<void> greet();
    Result<spawner::Answer> ask(const spawner::Request &request,
                                const std::vector<int> &descriptors = {}, Fd *process = nullptr);
    Result<spawner::Answer> exchange(const spawner::Request &request,
                                     const std::vector<int> &descriptors, Fd *process);
    spawner::Answer ask_plain(spawner::What what, const std::string &key, const std::string &name,
                              int signal = 0, Fd *process = nullptr);
    CgroupBase cgroups();

    const RgpudConfig config_;
    std::mutex mutex_;
    Fd socket_;
    bool isolates_ = false;
    CgroupBase cgroups_;
    bool told_ = false;  // that it is not there
};

}  // namespace rgpu::serverd
