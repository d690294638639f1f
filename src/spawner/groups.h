// The groups and their workers. One thread.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "spawner/cgroup.h"
#include "spawner/namespaces.h"
#include "spawner/protocol.h"
#include "spawner/settings.h"

namespace rgpu::spawner {

class Groups {
public:
    // Finds out whether namespaces can be made here, and says so where not. Makes what is below the
    // state folder.
    Result<void> open(const Settings &settings);
    bool isolated() const { return isolated_; }
    bool empty() const { return groups_.empty(); }

    // Each answers with an errno; 0: done. Whatever stands in a request is checked.
    int make(const Group &request);
    // In `process` stands the worker's pidfd afterwards, which stays the group's.
    int start(const Start &request, const std::vector<Fd> &descriptors, pid_t &pid, int &process);
    int signal(const Plain &request);
    int reap(const Plain &request, int &status);
    // EBUSY: some of it lives; to be asked again.
    int end(const std::string &key);
    // The entry behind that one, and the worker's pidfd.
    int next(const Plain &behind, Answer &answer, int &process);

    // Takes the ends of processes.
    void look();
    // Nobody is there who asks for workers: those groups that have none left end.
    void end_idle();
    // Leaves nothing behind, where no group is left.
    void close() { base_.remove(); }

private:
    struct Worker {
        pid_t pid = 0;
        Fd process;
        bool ended = false;
        int status = 0;
    };
    struct One {
        uid_t uid = 0;
        gid_t gid = 0;
        std::vector<gid_t> ids;
        std::set<std::string> devices;
        Init init;
        Cgroup cgroup;
        Limits limits{};
        bool ending = false;
        std::map<std::string, Worker> workers;
    };
    Worker *worker(const Plain &request);
    int make_folders(const Group &request);
    Result<void> limit(One &group, const Group &request);
    bool alive(const One &group) const;
    pid_t spawn(const One &group, const Start &request, const std::vector<Fd> &descriptors);

    Settings settings_;
    bool isolated_ = false;
    CgroupBase base_;
    Fd own_pids_, caches_, images_;
    std::map<std::string, One> groups_;
};

}  // namespace rgpu::spawner
