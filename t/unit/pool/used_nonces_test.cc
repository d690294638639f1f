// SPDX-License-Identifier: Apache-2.0
// What is remembered of used credentials, and for how long.
#include "pool/credentials/used_nonces.h"

#include <criterion/criterion.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>

#include "util/defaults.h"

using namespace rgpu;
using namespace rgpu::pool;

namespace {

constexpr int64_t kNow = 1'800'000'000'000, kBooted = kNow - 3'600'000;
const int64_t kWindow = defaults::kKeyWindow.count();

std::string nonce(int number)
{
    char text[33];
    snprintf(text, sizeof text, "%032d", number);
    return text;
}

// A name for a file, which is removed with it.
struct File {
    char path[40] = "/tmp/rgpu-used-nonces-test.XXXXXX";
    File()
    {
        close(mkstemp(path));
        unlink(path);
    }
    ~File() { unlink(path); }
    UsedNonces open(int64_t now = kNow, int64_t booted = kBooted)
    {
        return std::move(*UsedNonces::open(path, now, booted));
    }
    off_t size()
    {
        struct stat state {};
        stat(path, &state);
        return state.st_size;
    }
};

}  // namespace

Test(used_nonces, each_is_good_once_and_within_the_window)
{
    UsedNonces used = std::move(*UsedNonces::open("", kNow, kNow));
    cr_expect(used.use(nonce(1), kNow, kNow).has_value());
    cr_expect_not(used.use(nonce(1), kNow, kNow).has_value());
    cr_expect(used.use(nonce(2), kNow - kWindow, kNow).has_value());
    cr_expect(used.use(nonce(3), kNow + kWindow, kNow).has_value());
    cr_expect_not(used.use(nonce(4), kNow - kWindow - 1, kNow).has_value());
    cr_expect_not(used.use(nonce(5), kNow + kWindow + 1, kNow).has_value());
}

Test(used_nonces, a_file_carries_them_on)
{
    File file;
    cr_assert(file.open().use(nonce(1), kNow + kWindow, kNow).has_value());
    cr_assert(file.open().use(nonce(2), kNow, kNow).has_value());
    UsedNonces third = file.open(kNow + kWindow);
    cr_expect_not(third.use(nonce(1), kNow + kWindow, kNow + kWindow).has_value());
    cr_expect_not(third.use(nonce(2), kNow, kNow + kWindow).has_value());
}

Test(used_nonces, half_a_record_is_none)
{
    File file;
    UsedNonces first = file.open();
    cr_assert(first.use(nonce(1), kNow, kNow).has_value());
    cr_assert(first.use(nonce(2), kNow, kNow).has_value());
    cr_assert_eq(truncate(file.path, file.size() - 1), 0);
    UsedNonces second = file.open();
    cr_expect_not(second.use(nonce(1), kNow, kNow).has_value());
    cr_expect(second.use(nonce(2), kNow, kNow).has_value());
    UsedNonces third = file.open();
    cr_expect_not(third.use(nonce(2), kNow, kNow).has_value(), "it stands behind a whole record");
}

Test(used_nonces, the_file_does_not_grow_for_ever)
{
    File file;
    UsedNonces used = file.open();
    for (int i = 0; i < 5000; ++i)
        cr_assert(used.use(nonce(i), kNow + i * 1000, kNow + i * 1000).has_value());
    cr_expect_leq(file.size(), 1001 * 40);
    UsedNonces next = file.open(kNow + 4'999'000);
    cr_expect_leq(file.size(), (kWindow / 1000 + 1) * 40);
    cr_expect_not(next.use(nonce(4990), kNow + 4'990'000, kNow + 4'999'000).has_value());
}

Test(used_nonces, what_was_signed_before_the_boot_is_refused)
{
    File file;
    UsedNonces used = file.open(kNow, kNow - 1000);
    cr_expect_not(used.use(nonce(1), kNow - 1001, kNow).has_value());
    cr_expect(used.use(nonce(2), kNow - 1000, kNow).has_value());
}
