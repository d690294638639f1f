// SPDX-License-Identifier: Apache-2.0
// What the program has of NCCL: its communicators, whose handles are addresses that nobody reads,
// and the text of its last error. Any thread.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "calls/nccl.h"
#include "interpose/state/servers.h"

namespace rgpu::interpose::nccl {

struct Communicator {
    uint32_t number = 0;  // on the wire; each is given once
    unsigned server = 0;
};

class Program {
public:
    // The process's, made at first use.
    static Program &get();

    // A new one, of which the program gets the handle at once: other threads may abort it while it
    // is made. Null where all numbers are given.
    void *make(unsigned server);
    std::optional<Communicator> find(const void *handle);
    void end(const void *handle);

    // A new operator's number; -1 where all are given.
    int make_operator();

    // An id that this server has made for this program: to be used there.
    void note_id(const calls::NcclUniqueId &, unsigned server);
    // Where an id was made, as far as it was for this program.
    std::optional<unsigned> server_of(const calls::NcclUniqueId &);

    // True the first time for a server: what goes with its first frame does.
    bool first_for(unsigned server);

    // The text stays where it is until the next one; as NCCL's own, it is everybody's.
    void set_last_error(std::string_view);
    const char *last_error() const { return last_error_; }

    // True once for each of so many sentences.
    bool says_now(size_t which);

private:
    static constexpr size_t kMostIds = 1024;

    std::mutex mutex_;
    std::map<const void *, std::unique_ptr<Communicator>> live_;
    uint32_t last_ = 0;
    int next_operator_ = calls::kFirstNcclOperator;
    std::map<std::string, unsigned> ids_;
    std::array<bool, kMostServers> sent_{};
    std::array<bool, 256> said_{};
    char last_error_[1024] = "";
};

}  // namespace rgpu::interpose::nccl
