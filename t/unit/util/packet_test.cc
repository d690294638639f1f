// SPDX-License-Identifier: Apache-2.0
#include "util/packet.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <dirent.h>
#include <utility>

using namespace rgpu;

namespace {

std::pair<Fd, Fd> socket_pair()
{
    int ends[2];
    cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    return {Fd(ends[0]), Fd(ends[1])};
}

int open_descriptors()
{
    int count = 0;
    DIR *folder = opendir("/proc/self/fd");
    while (readdir(folder)) ++count;
    closedir(folder);
    return count;
}

}  // namespace

Test(packet, carries_bytes_and_descriptors_in_order)
{
    auto [ours, theirs] = socket_pair();
    const Fd null(open("/dev/null", O_RDONLY)), zero(open("/dev/zero", O_RDONLY));
    const std::array<int, 2> given{null.get(), zero.get()};
    cr_assert_eq(send_packet(ours.get(), "word", 4, given), 0);
    char bytes[8] = {};
    std::vector<Fd> received;
    cr_assert_eq(receive_packet(theirs.get(), bytes, sizeof bytes, received, 2), 4);
    cr_assert_str_eq(bytes, "word");
    cr_assert_eq(received.size(), 2u);
    char byte = 1;
    cr_expect_eq(read(received[0].get(), &byte, 1), 0);
    cr_expect_eq(read(received[1].get(), &byte, 1), 1);
    cr_expect(fcntl(received[0].get(), F_GETFD) & FD_CLOEXEC);
}

Test(packet, closes_what_comes_beyond_the_limit)
{
    auto [ours, theirs] = socket_pair();
    const Fd null(open("/dev/null", O_RDONLY));
    const std::vector<int> many(kMostPacketDescriptors, null.get());
    const int before = open_descriptors();
    char byte;
    std::vector<Fd> received;
    for (size_t count : {size_t{1}, size_t{2}, kMostPacketDescriptors}) {
        cr_assert_eq(send_packet(ours.get(), "x", 1, std::span(many).first(count)), 0);
        errno = 0;
        cr_expect_eq(receive_packet(theirs.get(), &byte, 1, received, count - 1), -1);
        cr_expect_eq(errno, EMSGSIZE);
        cr_expect(received.empty());
    }
    cr_expect_eq(open_descriptors(), before);
}

Test(packet, refuses_a_longer_message_and_tells_the_end)
{
    auto [ours, theirs] = socket_pair();
    const Fd null(open("/dev/null", O_RDONLY));
    const int given[] = {null.get()};
    cr_assert_eq(send_packet(ours.get(), "long", 4, given), 0);
    char bytes[2];
    std::vector<Fd> received;
    const int before = open_descriptors();
    cr_expect_eq(receive_packet(theirs.get(), bytes, sizeof bytes, received, 1), -1);
    cr_expect_eq(errno, EMSGSIZE);
    cr_expect_eq(open_descriptors(), before);
    cr_expect_eq(receive_packet(theirs.get(), bytes, 2, received, 1, MSG_DONTWAIT), -1);
    cr_expect_eq(errno, EAGAIN);
    ours.reset();
    cr_expect_eq(receive_packet(theirs.get(), bytes, sizeof bytes, received, 1), 0);
    cr_expect_eq(send_packet(theirs.get(), "x", 1, {}), EPIPE);
}
