// SPDX-License-Identifier: Apache-2.0
// Descriptors that name memory of the GPU server.
#include <criterion/criterion.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <random>

#include "interpose/state/shareable.h"
#include "util/packet.h"
#include "wire/shareable.h"

using namespace rgpu;
namespace shareable = rgpu::interpose::shareable;

namespace {

constexpr int kSeals = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;

Fd made(const char *name, unsigned server = 0)
{
    auto fd = shareable::make(name, server);
    cr_assert(fd.has_value());
    return std::move(*fd);
}

Fd forged(const std::string &content, int seals = kSeals)
{
    Fd fd(memfd_create("forged", MFD_ALLOW_SEALING));
    cr_assert_eq(write(fd.get(), content.data(), content.size()), ssize_t(content.size()));
    cr_assert_eq(fcntl(fd.get(), F_ADD_SEALS, seals), 0);
    return fd;
}

std::string content_of(const Fd &fd)
{
    char bytes[1024];
    const ssize_t n = pread(fd.get(), bytes, sizeof bytes, 0);
    return {bytes, n > 0 ? static_cast<size_t>(n) : 0};
}

}  // namespace

Test(shareable_fd, a_name_comes_back_from_any_copy)
{
    const Fd fd = made("some name"), copy(dup(fd.get()));
    cr_expect(shareable::name_in(fd.get()) == "some name");
    cr_expect(shareable::name_in(copy.get()) == "some name");
    cr_expect(fcntl(fd.get(), F_GETFD) & FD_CLOEXEC);
}

Test(shareable_fd, nobody_can_change_what_is_in_it)
{
    const Fd fd = made("some name");
    cr_expect_lt(pwrite(fd.get(), "x", 1, 20), 0);
    cr_expect_lt(ftruncate(fd.get(), 0), 0);
    cr_expect_lt(ftruncate(fd.get(), 100), 0);
    cr_expect(shareable::name_in(fd.get()) == "some name");
}

Test(shareable_fd, other_descriptors_are_none_and_miss_nothing)
{
    int ends[2];
    cr_assert_eq(pipe(ends), 0);
    cr_assert_eq(write(ends[1], "abc", 3), 3);
    const Fd null(open("/dev/null", O_RDWR)), folder(open("/tmp", O_RDONLY | O_DIRECTORY));
    for (int fd : {ends[0], ends[1], null.get(), folder.get(), -1, 100'000})
        cr_expect_not(shareable::name_in(fd), "%d", fd);
    char three[4];
    cr_expect_eq(read(ends[0], three, sizeof three), 3);
}

Test(shareable_fd, what_is_not_sealed_or_of_another_size_is_none)
{
    const std::string content = content_of(made("some name"));
    cr_expect(shareable::name_in(forged(content).get()) == "some name");
    for (int seals : {0, F_SEAL_WRITE, kSeals & ~F_SEAL_WRITE, kSeals & ~F_SEAL_SHRINK})
        cr_expect_not(shareable::name_in(forged(content, seals).get()), "%x", seals);
    cr_expect_not(shareable::name_in(forged(content.substr(0, 16)).get()));
    cr_expect_not(shareable::name_in(forged("").get()));
    cr_expect_not(shareable::name_in(forged(content + std::string(300, 'x')).get()));
    cr_expect_not(shareable::name_in(forged("X" + content.substr(1)).get()));
    std::mt19937 dice(1);
    for (int i = 0; i < 500; i++) {
        std::string random(dice() % 400, 0);
        for (char &c : random) c = static_cast<char>(dice());
        (void)shareable::name_in(forged(random).get());
    }
}

Test(shareable_fd, is_closed_when_no_process_has_it)
{
    Fd first = made("first", 3), second = made("second");
    cr_expect(shareable::any());
    cr_expect(shareable::take_closed(100).empty());
    Fd copy(dup(first.get()));
    first.reset();
    cr_expect(shareable::take_closed(100).empty());
    // Another process has it.
    int ends[2];
    cr_assert_eq(pipe(ends), 0);
    const pid_t child = fork();
    if (!child) {
        char c;
        close(ends[1]);
        _exit(read(ends[0], &c, 1) == 0 ? 0 : 1);
    }
    copy.reset();
    cr_expect(shareable::take_closed(100).empty());
    close(ends[1]);
    cr_assert_eq(waitpid(child, nullptr, 0), child);
    const auto closed = shareable::take_closed(100);
    cr_assert_eq(closed.size(), 1);
    cr_expect(closed[0].name == "first" && closed[0].server == 3);
    cr_expect(shareable::take_closed(100).empty());
    second.reset();
    cr_expect_eq(shareable::take_closed(100).size(), 1);
}

Test(shareable_fd, is_not_closed_while_it_is_under_way)
{
    int ends[2];
    cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends), 0);
    {
        const Fd fd = made("sent");
        const int number = fd.get();
        cr_assert_eq(send_packet(ends[0], "x", 1, {&number, 1}), 0);
    }
    cr_expect(shareable::take_closed(100).empty());
    std::vector<Fd> given;
    char c;
    cr_assert_eq(receive_packet(ends[1], &c, 1, given, 1), 1);
    cr_expect(shareable::name_in(given.at(0).get()) == "sent");
    given.clear();
    cr_expect_eq(shareable::take_closed(100).size(), 1);
}

Test(shareable_fd, looks_at_some_and_at_others_next_time)
{
    std::vector<Fd> all;
    for (int i = 0; i < 20; i++) all.push_back(made(std::to_string(i).c_str()));
    all.clear();
    cr_expect_eq(shareable::take_closed(8).size(), 8);
    cr_expect_eq(shareable::take_closed(8).size(), 8);
    cr_expect_eq(shareable::take_closed(8).size(), 4);
}

// As programs do that make themselves daemons.
Test(shareable_fd, lets_a_file_alone_that_came_in_the_place_of_its_own)
{
    Fd fd = made("lost");
    const Fd other(open("/tmp", O_TMPFILE | O_RDWR, 0600));
    struct stat mine = {}, now = {};
    cr_assert_eq(fstat(fd.get(), &mine), 0);
    int replaced = -1;
    for (int n = 3; n < 1024; n++)
        if (n != fd.get() && !fstat(n, &now) && now.st_ino == mine.st_ino &&
            now.st_dev == mine.st_dev)
            replaced = n;
    cr_assert_geq(replaced, 0);
    cr_assert_eq(dup2(other.get(), replaced), replaced);
    fd.reset();
    cr_expect(shareable::take_closed(100).empty());
    cr_expect(shareable::take_closed(100).empty());
    cr_expect_geq(fcntl(replaced, F_GETFD), 0);
}
