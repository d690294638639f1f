// The boards of this host's GPUs (share/board.h): rgpud makes them, hands them to workers, and reads them.
//
// They lie in /dev/shm, in files of this user alone whose names follow from [rgpud] state_dir: the next rgpud finds them, with
// the turns of workers that live on. The last one that leaves, with no worker left, removes them.
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "share/board.h"
#include "util/fd.h"
#include "util/result.h"

namespace rgpu::serverd {

// A file in memory for the rgpud of this state_dir: two of one host have different ones.
std::string memory_path(const std::string &state_dir, const std::string &name);

class Boards {
public:
    // Of the GPUs with these UUIDs. Fails with the file's name where one cannot be had.
    static Result<Boards> open(const std::string &state_dir, const std::vector<std::string> &uuids);
    Boards(Boards &&) = default;
    Boards &operator=(Boards &&) = default;
    ~Boards();

    // The file of a GPU's board, for a worker; -1 for a GPU that is not ours.
    int file(const std::string &uuid) const;

    // How the tenants of each GPU stand, in the GPUs' order. Any thread.
    struct Gpu {
        std::string uuid;
        std::vector<share::TenantView> tenants;
    };
    std::vector<Gpu> view() const;
    // GPU time that workers did not live to count: of this lease, or (empty) of all without a worker. Told once. Any thread.
    struct Busy {
        std::string uuid, lease;
        int64_t nanoseconds = 0;
    };
    std::vector<Busy> collect(const std::string &lease = {}) const;
    // What dead workers left goes, though nobody waits for it. Any thread.
    void sweep() const;

private:
    struct One {
        std::string uuid, path;
        Fd file;
        share::Board board;
    };
    Boards() = default;
    // Boards have locks of their own; the vector does not change.
    mutable std::vector<One> all_;
};

}  // namespace rgpu::serverd
