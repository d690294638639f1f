#include "serverd/identity.h"

#include <grp.h>
#include <unistd.h>

#include <charconv>

namespace rgpu::serverd {

namespace {

// A number and what stands behind it; false: there is none, or something else follows than `behind` or the end.
bool take(const char *&at, const char *end, unsigned &number, char behind)
{
    const auto [next, failure] = std::from_chars(at, end, number);
    if (failure != std::errc() || next == at || (next != end && *next != behind)) return false;
    at = next == end ? end : next + 1;
    return true;
}

}  // namespace

std::string format_identity(const Identity &identity)
{
    std::string text = std::to_string(identity.uid) + ":" + std::to_string(identity.gid) + ":";
    for (size_t i = 0; i < identity.groups.size(); i++) text += (i ? "," : "") + std::to_string(identity.groups[i]);
    return text;
}

std::optional<Identity> parse_identity(const std::string &text)
{
    Identity identity;
    const char *at = text.data(), *const end = at + text.size();
    if (!take(at, end, identity.uid, ':') || !take(at, end, identity.gid, ':') || at[-1] != ':') return std::nullopt;
    while (at != end) {
        gid_t group;
        if (!take(at, end, group, ',')) return std::nullopt;
        identity.groups.push_back(group);
    }
    if (text.ends_with(',')) return std::nullopt;
    return identity;
}

bool become(const Identity &identity)
{
    return setgroups(identity.groups.size(), identity.groups.data()) == 0 && setresgid(identity.gid, identity.gid, identity.gid) == 0 &&
           setresuid(identity.uid, identity.uid, identity.uid) == 0;
}

}  // namespace rgpu::serverd
