// SPDX-License-Identifier: Apache-2.0
#include "pool/credentials/used_nonces.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "util/defaults.h"

namespace rgpu::pool {
namespace {

constexpr size_t kNonce = 32, kRecord = sizeof(int64_t) + kNonce;
constexpr size_t kFewRecords = 1000;  // the file is not written anew for fewer

std::string record_of(int64_t sent, const std::string &nonce)
{
    return std::string(reinterpret_cast<const char *>(&sent), sizeof sent) + nonce;
}

}  // namespace

Result<UsedNonces> UsedNonces::open(const std::string &path, int64_t now, int64_t booted)
{
    UsedNonces used;
    used.path_ = path;
    used.booted_ = booted;
    if (path.empty()) return used;
    Result<void> done = used.read();
    if (done) {
        used.forget(now);
        done = used.rewrite();
    }
    if (!done)
        return error(ErrorKind::invalid, "%s, where used credentials are remembered: %s",
                     path.c_str(), done.error().text.c_str());
    return used;
}

Result<void> UsedNonces::read()
{
    Fd file(::open(path_.c_str(), O_RDONLY | O_CLOEXEC));
    if (!file)
        return errno == ENOENT ? Result<void>() : error(ErrorKind::invalid, "%s", strerror(errno));
    // No more than what a process remembers, and what it had not taken out of the file yet.
    constexpr size_t kMost = 3 * defaults::kMaxKeyNonces;
    char record[kRecord];
    ssize_t n = 0;
    for (size_t i = 0; i < kMost && (n = ::read(file.get(), record, sizeof record)) ==
                                        static_cast<ssize_t>(kRecord);
         ++i) {
        int64_t sent;
        memcpy(&sent, record, sizeof sent);
        if (seen_.emplace(std::string(record + sizeof sent, kNonce), sent).second)
            by_time_.emplace(sent, std::string(record + sizeof sent, kNonce));
    }
    return n < 0 ? error(ErrorKind::invalid, "%s", strerror(errno)) : Result<void>();
}

// Only what still matters.
Result<void> UsedNonces::rewrite()
{
    const std::string fresh = path_ + ".new";
    Fd file(::open(fresh.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600));
    std::string all;
    for (const auto &[sent, nonce] : by_time_) all += record_of(sent, nonce);
    if (!file || write(file.get(), all.data(), all.size()) != static_cast<ssize_t>(all.size()) ||
        rename(fresh.c_str(), path_.c_str()) != 0)
        return error(ErrorKind::unavailable, "%s", strerror(errno));
    file_ = std::move(file);
    records_ = by_time_.size();
    return {};
}

void UsedNonces::forget(int64_t now)
{
    const int64_t window = defaults::kKeyWindow.count();
    while (!by_time_.empty() && by_time_.begin()->first < now - window) {
        seen_.erase(by_time_.begin()->second);
        by_time_.erase(by_time_.begin());
    }
}

Result<void> UsedNonces::use(const std::string &nonce, int64_t sent, int64_t now)
{
    const int64_t window = defaults::kKeyWindow.count();
    if (sent < now - window || sent > now + window)
        return error(ErrorKind::invalid,
                     "the credential is %lld s old: set the clocks of client and server",
                     static_cast<long long>((now - sent) / 1000));
    // Only with a file there is something that a boot may have taken away.
    if (file_ && sent < booted_)
        return error(ErrorKind::invalid, "the credential was made before this server's host was "
                                         "booted: try again, or set the clocks of "
                                         "client and server");
    forget(now);
    if (seen_.size() >= defaults::kMaxKeyNonces)
        return error(ErrorKind::unavailable, "too many requests in a minute; try again later");
    if (seen_.count(nonce)) return error(ErrorKind::invalid, "the credential has been used before");
    if (file_ && records_ >= std::max(kFewRecords, 2 * seen_.size()))
        if (Result<void> done = rewrite(); !done)
            return std::move(done).error().in("used credentials cannot be remembered");
    const std::string record = record_of(sent, nonce);
    if (file_ &&
        write(file_.get(), record.data(), record.size()) != static_cast<ssize_t>(record.size())) {
        Error why = error(ErrorKind::unavailable, "used credentials cannot be remembered: %s",
                          strerror(errno));
        records_ = SIZE_MAX;  // half a record would hide what follows: the file is written anew
        return why;
    }
    ++records_;
    seen_.emplace(nonce, sent);
    by_time_.emplace(sent, nonce);
    return {};
}

}  // namespace rgpu::pool
