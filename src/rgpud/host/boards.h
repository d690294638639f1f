// SPDX-License-Identifier: Apache-2.0
// rgpud's side of rgpu-scheduler (share/protocol.h), which divides the time of this host's GPUs:
// rgpud starts it, asks it for workers' places, and for what it shows.
//
// The scheduler outlives rgpud; the next one finds its socket below [rgpud] state_dir. One that has
// died is started anew: workers of before go on without turns. No answer is waited for longer than
// a fifth of a second. Any thread may call.
#pragma once

#include <memory>
#include <optional>
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
    // Of the GPUs with these UUIDs; rgpu-scheduler lies beside the worker. Fails where none can be
    // started.
    static Result<Boards> open(const std::string &state_dir, const std::string &worker,
                               const std::vector<std::string> &uuids);
    Boards(Boards &&) noexcept;
    // The scheduler ends with the last worker.
    ~Boards();

    // A place for one worker of the lease (share::Seat::take()), which has so many there at most:
    // the oldest go. Where there is no scheduler it is one at which nobody answers.
    Fd seat(const std::string &uuid, const std::string &lease, share::Terms, uint64_t memory,
            int most) const;
    // From now on the lease may have that of the GPU's time, and so many bytes of its memory. How
    // many of its places have been told; nothing where the scheduler does not answer.
    std::optional<size_t> change(const std::string &uuid, const std::string &lease, share::Terms,
                                 uint64_t memory) const;
    // Keeps the file for the lease, by that name, until its end. The scheduler has it, too, so that
    // the next rgpud finds it, and each scheduler that is started later gets it. False: the
    // scheduler does not take it.
    bool keep(const std::string &lease, const std::string &name, Fd file) const;
    // That file, opened anew: locks on it are apart from all others'. Nothing: there is none.
    Fd file_of(const std::string &lease, const std::string &name) const;
    // Its workers have ended; any that have not are scheduled no more, and nothing is kept of it.
    void end_lease(const std::string &lease) const;

    // How the tenants of each GPU stand, in the GPUs' order; as they stood last, where the
    // scheduler does not answer.
    struct Gpu {
        std::string uuid;
        std::vector<share::TenantView> tenants;
    };
    std::vector<Gpu> view() const;
    // GPU time that leases had since the last call.
    struct Busy {
        std::string uuid, lease;
        int64_t nanoseconds = 0;
    };
    std::vector<Busy> collect() const;

private:
    class Link;
    explicit Boards(std::unique_ptr<Link> link);
    std::unique_ptr<Link> link_;
};

}  // namespace rgpu::serverd
