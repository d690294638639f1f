// SPDX-License-Identifier: Apache-2.0
#include "pool/credentials/auth.h"

#include <fcntl.h>
#include <munge.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <mutex>
#include <optional>

#include "pool/credentials/used_nonces.h"
#include "util/clock.h"
#include "util/defaults.h"
#include "util/file_state.h"
#include "util/sha256.h"

namespace rgpu::pool {
namespace {

constexpr int kMungeTtl = 60;  // seconds; munged's own default of 300 leaves more to remember
constexpr std::string_view kMungeScheme = "MUNGE ", kKeyScheme = "RGPU-KEY ";

// The bytes that a credential vouches for.
std::string statement(const SignedCall &call)
{
    return "rgpu control 1\n" + call.server + "\n" + call.method + "\n" + call.target + "\n" +
           to_hex(sha256(call.body));
}

// Why a statement that was vouched for is not the one expected.
Error mismatch(std::string_view told, const SignedCall &call)
{
    size_t start = told.find('\n');
    size_t end = start == told.npos ? told.npos : told.find('\n', start + 1);
    if (end != told.npos && told.starts_with("rgpu control 1\n") &&
        told.substr(start + 1, end - start - 1) != call.server)
        return error(
            ErrorKind::invalid,
            "the credential is for server \"%s\" and this is \"%s\": give it the same name under "
            "[[server]] there and [rgpud] here",
            std::string(told.substr(start + 1, std::min<size_t>(end - start - 1, 64))).c_str(),
            call.server.c_str());
    return error(ErrorKind::invalid, "the credential belongs to another request");
}

// --- munge

struct MungeContext {
    munge_ctx_t context = munge_ctx_create();

    explicit MungeContext(const std::string &socket)
    {
        munge_ctx_set(context, MUNGE_OPT_TTL, kMungeTtl);
        if (!socket.empty()) munge_ctx_set(context, MUNGE_OPT_SOCKET, socket.c_str());
    }
    ~MungeContext() { munge_ctx_destroy(context); }
    MungeContext(const MungeContext &) = delete;
    MungeContext &operator=(const MungeContext &) = delete;

    std::string why(munge_err_t failure) const
    {
        const char *text = munge_ctx_strerror(context);
        return text ? text : munge_strerror(failure);
    }
};

class MungeSigner : public Signer {
public:
    explicit MungeSigner(std::string socket) : socket_(std::move(socket)) {}

    Result<std::string> sign(const SignedCall &call) override
    {
        MungeContext munge(socket_);
        std::string text = statement(call);
        char *credential = nullptr;
        munge_err_t failure =
            munge_encode(&credential, munge.context, text.data(), static_cast<int>(text.size()));
        std::string header = credential ? std::string(kMungeScheme) + credential : "";
        free(credential);
        if (failure != EMUNGE_SUCCESS)
            return error(ErrorKind::internal,
                         "MUNGE gives no credential: %s; start munged, or set [auth] munge_socket",
                         munge.why(failure).c_str());
        return header;
    }

private:
    std::string socket_;
};

class MungeVerifier : public Verifier {
public:
    MungeVerifier(std::string socket, std::vector<uint32_t> admins)
        : socket_(std::move(socket)), admins_(std::move(admins))
    {}

    Result<Caller> verify(std::string_view authorization, const SignedCall &call) override
    {
        if (!authorization.starts_with(kMungeScheme))
            return error(
                ErrorKind::invalid,
                "a MUNGE credential is needed: set [auth] method = \"munge\" in rgpu.conf");
        std::string credential(authorization.substr(kMungeScheme.size()));
        MungeContext munge(socket_);
        void *payload = nullptr;
        int length = 0;
        uid_t uid = static_cast<uid_t>(-1);
        munge_err_t failure =
            munge_decode(credential.c_str(), munge.context, &payload, &length, &uid, nullptr);
        std::string text(payload ? static_cast<const char *>(payload) : "",
                         payload ? static_cast<size_t>(length) : 0);
        free(payload);
        if (failure == EMUNGE_SOCKET || failure == EMUNGE_TIMEOUT)
            return error(ErrorKind::unavailable, "munged does not answer on the server: %s",
                         munge.why(failure).c_str());
        if (failure != EMUNGE_SUCCESS)
            return error(ErrorKind::invalid, "the MUNGE credential is refused: %s",
                         munge.why(failure).c_str());
        if (text != statement(call)) return mismatch(text, call);
        return Caller{uid, std::find(admins_.begin(), admins_.end(), uid) != admins_.end()};
    }

private:
    std::string socket_;
    std::vector<uint32_t> admins_;
};

// --- key

int64_t wall_ms()
{
    using namespace std::chrono;
    return duration_cast<milliseconds>(system_clock::now().time_since_epoch()).count();
}

// When this host was booted, by its own clock.
int64_t booted_ms()
{
    timespec up{};
    clock_gettime(CLOCK_BOOTTIME, &up);
    return wall_ms() - up.tv_sec * 1000 - up.tv_nsec / 1000000;
}

std::string key_header(const std::string &key, const std::string &time, const std::string &nonce,
                       const SignedCall &call)
{
    return to_hex(hmac_sha256(key, time + "\n" + nonce + "\n" + statement(call)));
}

class KeySigner : public Signer {
public:
    explicit KeySigner(std::string key) : key_(std::move(key)) {}

    Result<std::string> sign(const SignedCall &call) override
    {
        std::string time = std::to_string(wall_ms()), nonce = random_id();
        return std::string(kKeyScheme) + time + " " + nonce + " " +
               key_header(key_, time, nonce, call);
    }

private:
    std::string key_;
};

Result<std::string> read_key(const std::string &path)
{
    int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return error(ErrorKind::invalid,
                     "key file %s: %s; make one with: head -c 32 /dev/urandom > %s; chmod 600 %s",
                     path.c_str(), strerror(errno), path.c_str(), path.c_str());
    struct stat state;
    char block[4096];
    ssize_t length = fstat(fd, &state) == 0 ? read(fd, block, sizeof block) : -1;
    int failure = errno;
    close(fd);
    if (length < 0)
        return error(ErrorKind::invalid, "key file %s: %s", path.c_str(), strerror(failure));
    if (state.st_mode & 07)
        return error(ErrorKind::invalid, "key file %s is open to all users: chmod o= %s",
                     path.c_str(), path.c_str());
    if (static_cast<size_t>(length) < defaults::kMinKeyBytes)
        return error(ErrorKind::invalid, "key file %s has %zd bytes; it needs %zu random ones",
                     path.c_str(), length, defaults::kMinKeyBytes);
    return std::string(block, static_cast<size_t>(length));
}

// The keys that are good now: that of the file, and while keys are changed that of the file beside
// it. Both are read again within a second of a change. One thread at a time.
class GoodKeys {
public:
    GoodKeys(std::string path, std::string key)
        : paths_{path, path + ".next"}, keys_{std::move(key)}
    {}

    const std::vector<std::string> &now()
    {
        constexpr Milliseconds kLookAgain{1000};
        const Time time = rgpu::now();
        if (looked_ && time - *looked_ < kLookAgain) return keys_;
        looked_ = time;
        std::string state = file_state(paths_);
        if (state == state_) return keys_;
        state_ = std::move(state);
        std::vector<std::string> found;
        for (const std::string &path : paths_)
            if (Result<std::string> key = read_key(path)) found.push_back(std::move(*key));
        // What cannot be read now was good before.
        if (!found.empty()) keys_ = std::move(found);
        return keys_;
    }

private:
    const std::string paths_[2];
    std::vector<std::string> keys_;
    std::string state_;
    std::optional<Time> looked_;
};

class KeyVerifier : public Verifier {
public:
    KeyVerifier(std::string path, std::string key) : keys_(std::move(path), std::move(key)) {}

    Result<void> remember_in(const std::string &file) override
    {
        Result<UsedNonces> used = UsedNonces::open(file, wall_ms(), booted_ms());
        if (!used) return std::move(used).error();
        std::lock_guard lock(mutex_);
        used_ = std::move(*used);
        return {};
    }

    Result<Caller> verify(std::string_view authorization, const SignedCall &call) override
    {
        Error refused = error(
            ErrorKind::invalid,
            "a credential made with this server's key is needed: set [auth] method = \"key\" and "
            "key_file in rgpu.conf, with the same key as on the server");
        if (!authorization.starts_with(kKeyScheme)) return refused;
        std::string_view rest = authorization.substr(kKeyScheme.size());
        size_t first = rest.find(' '),
               second = first == rest.npos ? rest.npos : rest.find(' ', first + 1);
        if (second == rest.npos) return refused;
        std::string time(rest.substr(0, first)), nonce(rest.substr(first + 1, second - first - 1));
        std::string_view proof = rest.substr(second + 1);
        std::lock_guard lock(mutex_);
        const auto proves = [&](const std::string &key) {
            const std::string expected = key_header(key, time, nonce, call);
            return proof.size() == expected.size() &&
                   equal_in_constant_time(proof.data(), expected.data(), expected.size());
        };
        const std::vector<std::string> &keys = keys_.now();
        if (nonce.size() != 32 || !std::any_of(keys.begin(), keys.end(), proves)) return refused;
        Result<int64_t> sent = parse_integer(time, 0, INT64_MAX / 2);
        if (!sent) return refused;
        Result<void> once = used_.use(nonce, *sent, wall_ms());
        return once ? Result<Caller>(Caller{0, true}) : std::move(once).error();
    }

private:
    std::mutex mutex_;
    GoodKeys keys_;
    UsedNonces used_;
};

// --- none

class NoSigner : public Signer {
public:
    Result<std::string> sign(const SignedCall &) override { return std::string(); }
};

class NoVerifier : public Verifier {
public:
    Result<Caller> verify(std::string_view, const SignedCall &) override { return Caller{0, true}; }
};

std::vector<uint32_t> uids_of(const std::vector<std::string> &names,
                              std::vector<std::string> &unknown)
{
    std::vector<uint32_t> uids = {0};
    for (const std::string &name : names) {
        Result<int64_t> number = parse_integer(name, 0, UINT32_MAX - 1);
        passwd *account = number ? nullptr : getpwnam(name.c_str());
        if (number)
            uids.push_back(static_cast<uint32_t>(*number));
        else if (account)
            uids.push_back(account->pw_uid);
        else
            unknown.push_back(name);
    }
    return uids;
}

}  // namespace

Result<std::unique_ptr<Signer>> make_signer(const AuthConfig &config)
{
    if (config.method == "munge")
        return std::unique_ptr<Signer>(new MungeSigner(config.munge_socket));
    if (config.method == "none") return std::unique_ptr<Signer>(new NoSigner);
    Result<std::string> key = read_key(config.key_file);
    if (!key) return std::move(key).error();
    return std::unique_ptr<Signer>(new KeySigner(*key));
}

Result<std::unique_ptr<Verifier>> make_verifier(const AuthConfig &config,
                                                std::vector<std::string> &unknown_admins,
                                                const std::string &memory)
{
    if (config.method == "munge")
        return std::unique_ptr<Verifier>(
            new MungeVerifier(config.munge_socket, uids_of(config.admins, unknown_admins)));
    if (config.method == "none") return std::unique_ptr<Verifier>(new NoVerifier);
    Result<std::string> key = read_key(config.key_file);
    if (!key) return std::move(key).error();
    std::unique_ptr<Verifier> verifier(new KeyVerifier(config.key_file, *key));
    if (Result<void> remembers = verifier->remember_in(memory); !remembers)
        return std::move(remembers).error();
    return verifier;
}

bool is_admin(const AuthConfig &config, uint32_t uid)
{
    if (config.method != "munge") return true;  // who has the key may do everything
    std::vector<std::string> unknown;
    const std::vector<uint32_t> admins = uids_of(config.admins, unknown);
    return std::find(admins.begin(), admins.end(), uid) != admins.end();
}

}  // namespace rgpu::pool
