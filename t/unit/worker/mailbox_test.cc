// SPDX-License-Identifier: Apache-2.0
// Workers ask each other for descriptors: who has the key gets one, and nobody else.
#include <criterion/criterion.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

#include <chrono>
#include <random>
#include <string>

#include "util/packet.h"
#include "worker/connection/mailbox.h"
#include "worker/session/exports.h"

using namespace rgpu;
using namespace rgpu::worker;

namespace {

wire::ShareKey key_of(uint8_t n)
{
    wire::ShareKey key;
    key.fill(n);
    return key;
}

Mailbox &opened()
{
    Mailbox &m = Mailbox::here();
    m.open();
    if (!m.is_open()) cr_skip_test("no socket can be bound in /dev/shm");
    return m;
}

std::string path_of(const Mailbox &m)
{
    char text[64];
    snprintf(text, sizeof text, "/dev/shm/rgpu-mailbox-%016llx",
             static_cast<unsigned long long>(m.number()));
    return text;
}

Fd file(const char *content)
{
    Fd fd(memfd_create("test", MFD_CLOEXEC));
    cr_assert_gt(write(fd.get(), content, strlen(content)), 0);
    return fd;
}

std::string read_all(const Fd &fd)
{
    char bytes[64];
    const ssize_t n = pread(fd.get(), bytes, sizeof bytes, 0);
    return {bytes, n > 0 ? static_cast<size_t>(n) : 0};
}

// Sends whatever there is to the mailbox.
int send_to(const Mailbox &m, const std::string &bytes, std::vector<int> descriptors)
{
    const Fd out(socket(AF_UNIX, SOCK_DGRAM, 0));
    sockaddr_un a{};
    a.sun_family = AF_UNIX;
    strncpy(a.sun_path, path_of(m).c_str(), sizeof a.sun_path - 1);
    return send_packet(out.get(), bytes.data(), bytes.size(), descriptors, 0, &a);
}

}  // namespace

Test(mailbox, gives_a_descriptor_to_who_has_the_key, .timeout = 20)
{
    Mailbox &m = opened();
    cr_assert(m.offer(key_of(1), file("one"), 11).has_value());
    cr_assert(m.offer(key_of(2), file("two"), 22).has_value());
    auto one = ask_mailbox(m.number(), key_of(1)), two = ask_mailbox(m.number(), key_of(2));
    cr_assert(one.has_value() && two.has_value());
    cr_expect(read_all(one->fd) == "one" && one->bytes == 11);
    cr_expect(read_all(two->fd) == "two" && two->bytes == 22);
    m.close();
}

Test(mailbox, gives_nothing_for_another_key_nor_after_it_was_withdrawn, .timeout = 20)
{
    Mailbox &m = opened();
    cr_assert(m.offer(key_of(1), file("one"), 1).has_value());
    cr_expect_not(ask_mailbox(m.number(), key_of(3)));
    cr_expect_not(ask_mailbox(m.number(), {}));
    cr_expect_not(ask_mailbox(m.number() + 1, key_of(1)));
    m.withdraw(key_of(1));
    cr_expect_not(ask_mailbox(m.number(), key_of(1)));
    m.close();
}

Test(mailbox, is_for_its_own_user_alone, .timeout = 20)
{
    Mailbox &m = opened();
    struct stat about = {};
    cr_assert_eq(stat(path_of(m).c_str(), &about), 0);
    cr_expect(S_ISSOCK(about.st_mode));
    cr_expect_eq(about.st_mode & 0777, 0600);
    cr_expect_eq(about.st_uid, geteuid());
    m.close();
    cr_expect_eq(access(path_of(m).c_str(), F_OK), -1);
    if (geteuid() != 0) return;
    // Root may write anywhere: another user asks.
    m.open();
    cr_assert(m.offer(key_of(1), file("one"), 1).has_value());
    const pid_t child = fork();
    if (!child) {
        if (setuid(65534)) _exit(2);
        _exit(ask_mailbox(m.number(), key_of(1)) ? 1 : 0);
    }
    int status = -1;
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_expect_eq(status, 0);
    m.close();
}

Test(mailbox, goes_on_whatever_it_is_sent, .timeout = 60)
{
    Mailbox &m = opened();
    cr_assert(m.offer(key_of(1), file("one"), 1).has_value());
    std::mt19937 dice(7);
    int ends[2];
    cr_assert_eq(pipe(ends), 0);
    const Fd null(open("/dev/null", O_RDWR));
    for (int i = 0; i < 2000; i++) {
        std::string bytes(dice() % 64, 0);
        for (char &c : bytes) c = static_cast<char>(dice());
        if (i % 3 == 0) bytes = "rgpukey1" + std::string(16, 1);
        std::vector<int> given;
        for (unsigned n = dice() % 4; n; n--) given.push_back(n % 2 ? ends[1] : null.get());
        if (i % 100 == 0) given.assign(200, null.get());
        send_to(m, bytes, given);
    }
    const auto found = ask_mailbox(m.number(), key_of(1));
    cr_assert(found.has_value());
    cr_expect(read_all(found->fd) == "one");
    int open_ones = 0;
    for (int fd = 0; fd < 1024; fd++) open_ones += fcntl(fd, F_GETFD) >= 0;
    cr_expect_lt(open_ones, 64, "%d", open_ones);
    m.close();
}

Test(mailbox, of_a_stopped_worker_makes_nobody_wait_long, .timeout = 20)
{
    // Bound, and nobody reads.
    Mailbox &m = opened();
    const auto begin = std::chrono::steady_clock::now();
    const auto found = ask_mailbox(m.number(), key_of(1));
    cr_assert_not(found.has_value());
    cr_expect(found.error().kind == ErrorKind::unavailable);
    cr_expect_lt((std::chrono::steady_clock::now() - begin) / std::chrono::milliseconds(1), 5000);
    m.close();
}

Test(mailbox, of_a_killed_worker_is_swept_away, .timeout = 20)
{
    int ends[2];
    cr_assert_eq(pipe(ends), 0);
    const pid_t child = fork();
    if (!child) {
        Mailbox::here().open();
        const uint64_t number = Mailbox::here().number();
        _exit(write(ends[1], &number, sizeof number) == sizeof number ? 0 : 1);
    }
    uint64_t number = 0;
    cr_assert_eq(read(ends[0], &number, sizeof number), ssize_t(sizeof number));
    cr_assert_eq(waitpid(child, nullptr, 0), child);
    char path[64];
    snprintf(path, sizeof path, "/dev/shm/rgpu-mailbox-%016llx",
             static_cast<unsigned long long>(number));
    if (access(path, F_OK)) cr_skip_test("no socket can be bound in /dev/shm");
    Mailbox &m = opened();
    cr_expect_eq(access(path, F_OK), -1);
    cr_expect_eq(access(path_of(m).c_str(), F_OK), 0);
    m.close();
}

// --- what a session has exported

Test(exports, of_one_memory_have_one_name_until_all_are_closed, .timeout = 20)
{
    Mailbox &m = opened();
    Exports e(m, "lease");
    using Kind = Exports::Kind;
    cr_expect_not(e.again(7));
    const auto name = e.add(Kind::memory, 7, file("seven"), 70);
    cr_assert(name.has_value());
    const auto again = e.again(7);
    cr_assert(again.has_value());
    cr_expect(again->key == name->key);
    auto found = e.find(*name);
    cr_assert(found.has_value());
    cr_expect(read_all(found->fd) == "seven" && found->bytes == 70);
    cr_expect_not(e.closed(name->key));
    cr_expect(e.find(*name).has_value());
    cr_expect_not(e.closed(name->key));
    cr_expect_not(e.find(*name).has_value());
    cr_expect_not(e.closed(name->key));
    cr_expect_not(e.again(7));
    m.close();
}

Test(exports, keep_memory_whose_last_handle_is_given_up, .timeout = 20)
{
    Mailbox &m = opened();
    Exports e(m, "lease");
    cr_expect_not(e.keeps(7));
    const auto name = e.add(Exports::Kind::memory, 7, file("seven"), 70);
    cr_assert(name.has_value());
    cr_expect(e.keeps(7));
    cr_expect_not(e.keeps(7));  // that one was retained since
    cr_expect(e.closed(name->key) == 7);
    cr_expect_not(e.keeps(7));
    m.close();
}

Test(exports, of_another_lease_are_not_asked_for, .timeout = 20)
{
    Mailbox &m = opened();
    Exports mine(m, "lease"), others(m, "other");
    const auto name = mine.add(Exports::Kind::pool, 0, file("pool"), 0);
    cr_assert(name.has_value());
    cr_expect(mine.find(*name).has_value());
    cr_expect_not(others.find(*name).has_value());
    m.close();
}
