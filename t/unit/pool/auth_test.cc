// SPDX-License-Identifier: Apache-2.0
#include "pool/credentials/auth.h"

#include <criterion/criterion.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>

using namespace rgpu;
using namespace rgpu::pool;

// A key file of its own, of this many bytes and mode; removed with it.
struct KeyFile {
    char path[32] = "/tmp/rgpu-auth-test.XXXXXX";
    AuthConfig config;

    explicit KeyFile(size_t bytes = 32, mode_t mode = 0600, char fill = 'k')
    {
        int fd = mkstemp(path);
        std::string key(bytes, fill);
        cr_assert_eq(write(fd, key.data(), key.size()), static_cast<ssize_t>(key.size()));
        fchmod(fd, mode);
        close(fd);
        config.method = "key";
        config.key_file = path;
    }
    ~KeyFile() { unlink(path); }

    std::unique_ptr<Verifier> verifier(const std::string &memory = {})
    {
        std::vector<std::string> unknown;
        auto made = make_verifier(config, unknown, memory);
        cr_assert(made.has_value());
        return std::move(*made);
    }
    std::string sign(const SignedCall &call) { return *(*make_signer(config))->sign(call); }
};

static const SignedCall kCall{"gpu1", "POST", "/v1/offers?x=1", "{\"gpus\":1}"};

Test(auth, a_key_credential_is_good_once)
{
    KeyFile key;
    auto verifier = key.verifier();
    std::string credential = key.sign(kCall);
    auto caller = verifier->verify(credential, kCall);
    cr_assert(caller.has_value(), "%s", caller ? "" : caller.error().text.c_str());
    cr_assert(caller->admin);
    auto again = verifier->verify(credential, kCall);
    cr_assert_not(again.has_value());
    cr_assert(again.error().text.find("before") != std::string::npos);
}

Test(auth, a_key_credential_is_good_once_for_the_next_verifier_too)
{
    KeyFile key;
    const std::string memory = std::string(key.path) + ".used";
    std::string credential = key.sign(kCall);
    cr_assert(key.verifier(memory)->verify(credential, kCall).has_value());
    auto next = key.verifier(memory);
    cr_expect_not(next->verify(credential, kCall).has_value());
    cr_expect(next->verify(key.sign(kCall), kCall).has_value());
    unlink(memory.c_str());
}

Test(auth, a_memory_that_cannot_be_kept_is_told_of)
{
    KeyFile key;
    std::vector<std::string> unknown;
    auto made = make_verifier(key.config, unknown, "/nonexistent/used");
    cr_assert_not(made.has_value());
    cr_assert(made.error().text.find("/nonexistent/used") != std::string::npos);
}

Test(auth, a_key_credential_is_bound_to_every_part_of_its_request)
{
    KeyFile key;
    auto verifier = key.verifier();
    SignedCall others[] = {kCall, kCall, kCall, kCall};
    others[0].server = "gpu2";
    others[1].method = "DELETE";
    others[2].target = "/v1/offers?x=2";
    others[3].body = "{\"gpus\":2}";
    for (const SignedCall &other : others)
        cr_assert_not(verifier->verify(key.sign(kCall), other).has_value());
    cr_assert(verifier->verify(key.sign(kCall), kCall).has_value());
}

Test(auth, keys_are_changed_without_a_new_verifier)
{
    KeyFile old(32, 0600, 'o'), fresh(32, 0600, 'n');
    auto verifier = old.verifier();
    cr_assert(verifier->verify(old.sign(kCall), kCall).has_value());
    const std::string path = old.path, next = path + ".next", aside = path + ".aside";
    // Waits for the verifier to look again.
    auto becomes = [&](KeyFile &key, bool good) {
        for (int i = 0; i < 300; i++) {
            if (verifier->verify(key.sign(kCall), kCall).has_value() == good) return true;
            usleep(10'000);
        }
        return false;
    };
    cr_assert_not(verifier->verify(fresh.sign(kCall), kCall).has_value());
    std::filesystem::copy_file(fresh.path, next);
    cr_expect(becomes(fresh, true));
    KeyFile kept(32, 0600, 'o');
    cr_expect(verifier->verify(kept.sign(kCall), kCall).has_value(), "the old one is good, too");
    std::filesystem::rename(next, path);
    cr_expect(becomes(kept, false));
    cr_expect(verifier->verify(fresh.sign(kCall), kCall).has_value());
}

Test(auth, another_key_and_garbage_are_refused)
{
    KeyFile key, other(32, 0600, 'x');
    auto verifier = key.verifier();
    cr_assert_not(verifier->verify(other.sign(kCall), kCall).has_value());
    for (const char *garbage :
         {"", "RGPU-KEY", "RGPU-KEY ", "RGPU-KEY 1 2 3", "MUNGE abc", "RGPU-KEY a b"})
        cr_assert_not(verifier->verify(garbage, kCall).has_value(), "%s", garbage);
    std::string good = key.sign(kCall);
    for (size_t n = 0; n < good.size(); ++n)
        cr_assert_not(verifier->verify(good.substr(0, n), kCall).has_value(), "cut at %zu", n);
}

Test(auth, a_poor_key_file_is_refused_with_its_cure)
{
    KeyFile small(31), open(32, 0644);
    auto too_small = make_signer(small.config), too_open = make_signer(open.config);
    cr_assert_not(too_small.has_value());
    cr_assert_not(too_open.has_value());
    cr_assert(too_open.error().text.find("chmod") != std::string::npos);
    AuthConfig none = small.config;
    none.key_file = "/nonexistent/key";
    auto missing = make_signer(none);
    cr_assert_not(missing.has_value());
    cr_assert(missing.error().text.find("/nonexistent/key") != std::string::npos);
    cr_assert(missing.error().text.find("urandom") != std::string::npos);
}

Test(auth, munge_without_munged_names_the_cure)
{
    AuthConfig config;
    config.munge_socket = "/nonexistent/munge.socket";
    auto credential = (*make_signer(config))->sign(kCall);
    cr_assert_not(credential.has_value());
    cr_assert(credential.error().text.find("munged") != std::string::npos);
}

Test(auth, unknown_administrators_are_told)
{
    AuthConfig config;
    config.admins = {"root", "no-such-user-here", "1234"};
    std::vector<std::string> unknown;
    cr_assert(make_verifier(config, unknown).has_value());
    cr_assert_eq(unknown, std::vector<std::string>{"no-such-user-here"});
}
