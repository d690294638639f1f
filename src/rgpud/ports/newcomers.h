// SPDX-License-Identifier: Apache-2.0
// Connections that have not said yet what they want: which of them makes room for one more.
//
// Of one address there are only so many; where there is no room at all, the address that has most
// of them gives one up. It is always the oldest: who comes for something says so at once. So
// whoever opens connections and says nothing is in nobody's way but his own.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>

namespace rgpu::serverd {

// One thread at a time.
class Newcomers {
public:
    explicit Newcomers(size_t most_of_address) : most_of_address_(most_of_address) {}

    // Returns its number: later ones have higher numbers.
    uint64_t add(const std::string &address);
    void remove(uint64_t number);
    size_t size() const { return addresses_.size(); }

    // Who has to go before one more of this address may come, if anybody. `full`: there is room for
    // none at all.
    std::optional<uint64_t> in_the_way_of(const std::string &address, bool full) const;
    // The oldest of the address that has most.
    std::optional<uint64_t> most_crowded() const;

private:
    size_t most_of_address_;
    uint64_t next_ = 1;
    std::map<uint64_t, std::string> addresses_;
    std::map<std::string, std::set<uint64_t>> numbers_;
};

// Where a connection comes from, for Newcomers: an IPv4 address, or the network (/64) of an IPv6
// address, all of which is one host's.
std::string origin_of(int socket);

}  // namespace rgpu::serverd
