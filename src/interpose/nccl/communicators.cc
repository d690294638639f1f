// SPDX-License-Identifier: Apache-2.0
#include "interpose/nccl/communicators.h"

#include <algorithm>
#include <climits>
#include <cstring>

#include "interpose/state/client.h"

namespace rgpu::interpose::nccl {

Program &Program::get() { return client_part<Program>(Part::nccl); }

void *Program::make(unsigned server)
{
    std::lock_guard lock(mutex_);
    if (last_ == INT_MAX) return nullptr;
    auto made = std::make_unique<Communicator>(Communicator{last_ + 1, server});
    void *const handle = made.get();
    live_.emplace(handle, std::move(made));
    last_++;
    return handle;
}

std::optional<Communicator> Program::find(const void *handle)
{
    std::lock_guard lock(mutex_);
    const auto it = live_.find(handle);
    return it == live_.end() ? std::nullopt : std::optional(*it->second);
}

void Program::end(const void *handle)
{
    std::lock_guard lock(mutex_);
    live_.erase(handle);
}

int Program::make_operator()
{
    std::lock_guard lock(mutex_);
    return next_operator_ == INT_MAX ? -1 : next_operator_++;
}

void Program::note_id(const calls::NcclUniqueId &id, unsigned server)
{
    std::lock_guard lock(mutex_);
    if (ids_.size() == kMostIds) ids_.clear();
    ids_[std::string(id.bytes, sizeof id.bytes)] = server;
}

std::optional<unsigned> Program::server_of(const calls::NcclUniqueId &id)
{
    std::lock_guard lock(mutex_);
    const auto it = ids_.find(std::string(id.bytes, sizeof id.bytes));
    return it == ids_.end() ? std::nullopt : std::optional(it->second);
}

bool Program::first_for(unsigned server)
{
    std::lock_guard lock(mutex_);
    return !std::exchange(sent_[server], true);
}

void Program::set_last_error(std::string_view text)
{
    std::lock_guard lock(mutex_);
    const size_t n = std::min(text.size(), sizeof last_error_ - 1);
    memcpy(last_error_, text.data(), n);
    last_error_[n] = 0;
}

bool Program::says_now(size_t which)
{
    std::lock_guard lock(mutex_);
    return !std::exchange(said_[which % said_.size()], true);
}

}  // namespace rgpu::interpose::nccl
