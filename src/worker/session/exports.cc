// SPDX-License-Identifier: Apache-2.0
#include "worker/session/exports.h"

#include <utility>

namespace rgpu::worker {

std::optional<wire::ShareableName> Exports::again(uint64_t memory)
{
    const auto at = memory_.find(memory);
    if (at == memory_.end()) return {};
    exports_.at(at->second).times++;
    return name(Kind::memory, at->second);
}

Result<wire::ShareableName> Exports::add(Kind kind, uint64_t number, Fd driver, uint64_t bytes)
{
    const auto key = new_share_key();
    if (!key) return key.error();
    if (auto offered = mailbox_.offer(*key, std::move(driver), bytes); !offered)
        return std::move(offered).error();
    exports_.emplace(*key, Export{kind, number});
    if (kind == Kind::memory) memory_[number] = *key;
    return name(kind, *key);
}

Result<Received> Exports::find(const wire::ShareableName &name) const
{
    if (name.lease != lease_) return error(ErrorKind::invalid, "memory of another lease");
    return ask_mailbox(name.mailbox, name.key);
}

std::optional<uint64_t> Exports::closed(const wire::ShareKey &key)
{
    const auto at = exports_.find(key);
    if (at == exports_.end() || --at->second.times) return {};
    const Export gone = at->second;
    mailbox_.withdraw(key);
    if (gone.kind == Kind::memory) memory_.erase(gone.number);
    exports_.erase(at);
    return gone.released ? std::optional(gone.number) : std::nullopt;
}

bool Exports::keeps(uint64_t memory)
{
    const auto at = memory_.find(memory);
    if (at == memory_.end()) return false;
    return !std::exchange(exports_.at(at->second).released, true);
}

}  // namespace rgpu::worker
