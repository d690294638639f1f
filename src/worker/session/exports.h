// SPDX-License-Identifier: Apache-2.0
// What the session has given descriptors of: memory and pools that other processes of the job may
// open.
//
// A driver keeps exported memory for as long as its descriptor is open anywhere. Here the program's
// descriptor is the client's, so the worker keeps the driver's own until the client says that all
// processes have closed theirs. Memory whose last handle the program gives up meanwhile keeps it
// until then: it counts as long, and no other memory gets its number.
//
// Dispatcher only.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "util/fd.h"
#include "util/result.h"
#include "wire/shareable.h"
#include "worker/connection/mailbox.h"

namespace rgpu::worker {

class Exports {
public:
    using Kind = wire::ShareableName::Kind;

    Exports(Mailbox &mailbox, std::string lease) : mailbox_(mailbox), lease_(std::move(lease)) {}
    // Whether there is a way to other workers.
    bool can() const { return mailbox_.is_open(); }

    // Memory that has a name keeps it, and counts once more: its name, or nothing.
    std::optional<wire::ShareableName> again(uint64_t memory);
    // A name for the driver's descriptor of something. `number` is what the driver calls memory.
    Result<wire::ShareableName> add(Kind, uint64_t number, Fd driver, uint64_t bytes);

    // What a worker of this lease, this one too, has exported by that name; fails as ask_mailbox(),
    // and with `invalid` for another lease's.
    Result<Received> find(const wire::ShareableName &) const;

    bool has(const wire::ShareKey &key) const { return exports_.contains(key); }

    // All processes have closed one of its descriptors. Returns memory that is to be released now,
    // which keeps() had said.
    std::optional<uint64_t> closed(const wire::ShareKey &);
    // The program gives up the last handle of memory: whether that has to wait.
    bool keeps(uint64_t memory);

private:
    wire::ShareableName name(Kind kind, const wire::ShareKey &key) const
    {
        return {kind, mailbox_.number(), key, lease_};
    }

    struct Export {
        Kind kind;
        uint64_t number;
        uint64_t times = 1;
        bool released = false;
    };
    Mailbox &mailbox_;
    const std::string lease_;
    std::map<wire::ShareKey, Export> exports_;
    std::map<uint64_t, wire::ShareKey> memory_;
};

}  // namespace rgpu::worker
