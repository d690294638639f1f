// SPDX-License-Identifier: Apache-2.0
#include "rgpud/ports/newcomers.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>

namespace rgpu::serverd {

uint64_t Newcomers::add(const std::string &address)
{
    numbers_[address].insert(next_);
    addresses_[next_] = address;
    return next_++;
}

void Newcomers::remove(uint64_t number)
{
    auto found = addresses_.find(number);
    if (found == addresses_.end()) return;
    auto of_address = numbers_.find(found->second);
    of_address->second.erase(number);
    if (of_address->second.empty()) numbers_.erase(of_address);
    addresses_.erase(found);
}

std::optional<uint64_t> Newcomers::in_the_way_of(const std::string &address, bool full) const
{
    auto own = numbers_.find(address);
    if (own != numbers_.end() && own->second.size() >= most_of_address_)
        return *own->second.begin();
    return full ? most_crowded() : std::nullopt;
}

std::optional<uint64_t> Newcomers::most_crowded() const
{
    // Of two that have as many, the one that has the older.
    auto most =
        std::max_element(numbers_.begin(), numbers_.end(), [](const auto &a, const auto &b) {
            return a.second.size() != b.second.size() ? a.second.size() < b.second.size()
                                                      : *a.second.begin() > *b.second.begin();
        });
    return most == numbers_.end() ? std::nullopt : std::optional(*most->second.begin());
}

std::string origin_of(int socket)
{
    sockaddr_storage address{};
    socklen_t size = sizeof address;
    char text[INET6_ADDRSTRLEN] = "";
    if (getpeername(socket, reinterpret_cast<sockaddr *>(&address), &size) != 0) return "unknown";
    if (address.ss_family == AF_INET)
        return inet_ntop(AF_INET, &reinterpret_cast<sockaddr_in &>(address).sin_addr, text,
                         sizeof text);
    if (address.ss_family != AF_INET6) return "unknown";
    in6_addr v6 = reinterpret_cast<sockaddr_in6 &>(address).sin6_addr;
    if (IN6_IS_ADDR_V4MAPPED(&v6)) return inet_ntop(AF_INET, v6.s6_addr + 12, text, sizeof text);
    memset(v6.s6_addr + 8, 0, 8);
    return inet_ntop(AF_INET6, &v6, text, sizeof text) + std::string("/64");
}

}  // namespace rgpu::serverd
