// SPDX-License-Identifier: Apache-2.0
#include "web/access.h"

#include <fcntl.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>

#include "util/fd.h"
#include "util/sha256.h"

namespace rgpu::web {
namespace {

constexpr size_t kLeastToken = 32, kMostToken = 1024;
constexpr std::string_view kScheme = "Bearer ";

// What stands in a header as it is.
bool is_plain(std::string_view token)
{
    return std::all_of(token.begin(), token.end(), [](char c) { return c > 0x20 && c < 0x7f; });
}

Result<std::string> read_token(const std::string &path)
{
    const char *name = path.c_str();
    Fd file(open(name, O_RDONLY | O_CLOEXEC));
    if (!file)
        return error(
            ErrorKind::invalid,
            "[web] token_file %s: %s; make one with: (umask 027; head -c 32 /dev/urandom | "
            "base64 -w 0 > %s)",
            name, strerror(errno), name);
    struct stat state;
    char block[kMostToken + 1];
    const ssize_t length = fstat(file.get(), &state) == 0 ? read(file.get(), block, sizeof block)
                                                          : -1;
    if (length < 0)
        return error(ErrorKind::invalid, "[web] token_file %s: %s", name, strerror(errno));
    if (state.st_mode & 07)
        return error(ErrorKind::invalid,
                     "[web] token_file %s is open to all users, and who knows it sees every job: "
                     "chmod o= %s",
                     name, name);
    std::string token(block, static_cast<size_t>(length));
    while (!token.empty() && (token.back() == '\n' || token.back() == '\r')) token.pop_back();
    if (token.size() < kLeastToken || token.size() > kMostToken || !is_plain(token))
        return error(ErrorKind::invalid,
                     "[web] token_file %s: a token is one line of %zu to %zu letters, digits and "
                     "signs, without blanks",
                     name, kLeastToken, kMostToken);
    return token;
}

// The name of a Host field, without its port.
std::string_view host_of(std::string_view field)
{
    if (field.starts_with('[')) return field.substr(0, std::min(field.find(']'), field.size()) + 1);
    return field.substr(0, field.find(':'));
}

std::optional<uint32_t> uid_of(const std::string &user)
{
    char buffer[16384];
    passwd entry, *found = nullptr;
    getpwnam_r(user.c_str(), &entry, buffer, sizeof buffer, &found);
    return found ? std::optional<uint32_t>(found->pw_uid) : std::nullopt;
}

}  // namespace

Result<Access> Access::create(const Config &config)
{
    Access access;
    access.user_header_ = config.web.user_header;
    access.hosts_ = config.web.hosts;
    access.admins_ = config.auth.admins;
    if (config.web.token_file.empty()) {
        if (!access.user_header_.empty())
            return error(ErrorKind::invalid,
                         "%s: [web] user_header needs a token_file: any process of this host could "
                         "name any user; the proxy adds \"Authorization: Bearer TOKEN\" to each "
                         "request",
                         config.path.c_str());
        const std::string random = pool::random_secret();
        access.token_ = to_hex(random.data(), random.size());
        access.made_ = true;
        return access;
    }
    Result<std::string> token = read_token(config.web.token_file);
    if (!token) return std::move(token).error();
    access.token_ = std::move(*token);
    return access;
}

Result<void> Access::right_host(const Asked &asked) const
{
    const auto named = asked.all("Host");
    const std::string_view host = named.size() == 1 ? host_of(named[0]) : "";
    for (std::string_view own : {"localhost", "127.0.0.1", "[::1]"})
        if (host == own) return {};
    if (std::find(hosts_.begin(), hosts_.end(), host) != hosts_.end()) return {};
    return error(ErrorKind::invalid,
                 "this page is not served under that name: ask for 127.0.0.1 or localhost, or add "
                 "the name to [web] hosts of rgpu.conf");
}

Result<Viewer> Access::viewer_of(const Asked &asked) const
{
    const auto shown = asked.all("Authorization");
    // Both as digests, so that the time tells not even a length.
    const std::string_view token =
        shown.size() == 1 && shown[0].starts_with(kScheme) ? shown[0].substr(kScheme.size()) : "";
    const Digest given = sha256(token), right = sha256(token_);
    if (!equal_in_constant_time(given.data(), right.data(), given.size()))
        return error(ErrorKind::invalid,
                     "this needs the token that rgpu web has printed or read from its token_file");
    if (user_header_.empty()) return Viewer{"", 0, true};
    const auto names = asked.all(user_header_);
    if (names.size() != 1 || names[0].empty() || names[0].size() > defaults::kMaxText)
        return error(ErrorKind::unsupported,
                     "the proxy does not say who asks: it must set the header %s, once",
                     user_header_.c_str());
    const std::string user(names[0]);
    const std::optional<uint32_t> uid = uid_of(user);
    if (!uid)
        return error(ErrorKind::unsupported,
                     "this host knows no user of the name that the proxy gives");
    const auto is_user = [&](const std::string &admin) {
        return admin == user || admin == std::to_string(*uid);
    };
    return Viewer{user, *uid, std::any_of(admins_.begin(), admins_.end(), is_user)};
}

}  // namespace rgpu::web
