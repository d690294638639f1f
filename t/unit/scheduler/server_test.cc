// SPDX-License-Identifier: Apache-2.0
// The scheduler's sockets: what rgpud may ask, and what neither it nor a worker can do to it.
#include "scheduler/server.h"

#include <criterion/criterion.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <random>

#include "share/seat.h"

using namespace rgpu;
using namespace rgpu::share;
using scheduler::Server;

namespace {

// An abstract socket of the test's own.
sockaddr_un address()
{
    sockaddr_un a{};
    a.sun_family = AF_UNIX;
    snprintf(a.sun_path + 1, sizeof a.sun_path - 1, "rgpu-server-test.%d", getpid());
    return a;
}

Server open_server(uid_t owner = geteuid())
{
    Fd listening(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    const sockaddr_un a = address();
    cr_assert_eq(bind(listening.get(), reinterpret_cast<const sockaddr *>(&a), sizeof a), 0);
    cr_assert_eq(listen(listening.get(), 4), 0);
    return std::move(*Server::open(std::move(listening), owner));
}

Fd connect_to_server()
{
    Fd client(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    const sockaddr_un a = address();
    cr_assert_eq(connect(client.get(), reinterpret_cast<const sockaddr *>(&a), sizeof a), 0);
    return client;
}

Request request(Ask ask, const char *gpu = "GPU-1", const char *lease = "lease",
                Terms terms = {50, 100, 100})
{
    Request r;
    r.ask = ask;
    strcpy(r.gpu, gpu);
    strcpy(r.lease, lease);
    r.terms = terms;
    return r;
}

Server::Answer ask(Server &server, const Request &r)
{
    return server.answer(&r, sizeof r, clock_now());
}

Reply reply(const Server::Answer &answer)
{
    Reply r;
    cr_assert_geq(answer.bytes.size(), sizeof r);
    memcpy(static_cast<void *>(&r), answer.bytes.data(), sizeof r);
    return r;
}

}  // namespace

Test(server, gives_a_worker_its_place_and_turn)
{
    Server server = open_server();
    Fd client = connect_to_server();
    cr_expect(server.turn());  // it comes
    const Request r = request(Ask::seat);
    cr_assert_eq(send_message(client.get(), &r, sizeof r), 0);
    cr_expect(server.turn());
    Reply answer;
    Fd socket;
    cr_assert_eq(receive_message(client.get(), &answer, sizeof answer, &socket),
                 static_cast<ssize_t>(sizeof answer));
    cr_expect_eq(answer.failed, 0u);
    auto seat = Seat::take(socket.get());
    cr_assert(seat.has_value());
    cr_expect_not((*seat)->ask(), "not yet");
    for (int i = 0; i < 10 && !(*seat)->may_launch(); ++i) cr_assert(server.turn());
    cr_expect((*seat)->ask());
    seat->reset();
    socket.reset();
    cr_expect(server.turn(), "its line hangs up");
    cr_expect_eq(reply(ask(server, request(Ask::view))).workers, 0u);
    cr_expect_eq(reply(ask(server, request(Ask::end))).failed, 0u);
    client.reset();
    cr_expect_not(server.turn(), "nobody needs it any more");
}

Test(server, serves_its_owner_alone)
{
    Server server = open_server(geteuid() + 1);
    Fd client = connect_to_server();
    cr_expect(server.turn());
    const Request r = request(Ask::hello);
    (void)send_message(client.get(), &r, sizeof r);
    char byte;
    cr_expect_leq(receive_message(client.get(), &byte, 1), 0);
    cr_expect_neq(errno, EAGAIN, "its connection is closed");
}

Test(server, ends_the_places_of_a_lease_whose_workers_should_have_ended)
{
    Server server = open_server();
    Server::Answer a = ask(server, request(Ask::seat)),
                   b = ask(server, request(Ask::seat, "GPU-2", "another"));
    auto seat = Seat::take(a.descriptor.get());
    cr_expect_eq(reply(ask(server, request(Ask::end_lease))).workers, 1u);
    (*seat)->wait();
    cr_expect((*seat)->may_launch(), "nobody is there any more, and it is told so");
    for (int i = 0; i < 3; ++i)  // what it still rings is nobody's
        (*seat)->tell();
    cr_expect_eq(reply(ask(server, request(Ask::view, "GPU-2"))).workers, 1u);
}

Test(server, hears_one_that_rings_all_the_time_a_bounded_number_of_times, .timeout = 60)
{
    Server server = open_server();
    Server::Answer a = ask(server, request(Ask::seat)),
                   b = ask(server, request(Ask::seat, "GPU-1", "another"));
    auto noisy = Seat::take(a.descriptor.get()), quiet = Seat::take(b.descriptor.get());
    const int64_t begin = clock_now();
    int turns = 0;
    while (clock_now() < begin + kSecond) {
        (*noisy)->tell();
        if (turns++ % 10 == 0)
            (*quiet)->tell();  // else turn() would wait while the noisy one is not heard
        cr_assert(server.turn());
    }
    // The quiet one is served all the time.
    cr_expect_not((*quiet)->ask());
    cr_assert(server.turn());
    cr_assert(server.turn());
    const Reply view = reply(ask(server, request(Ask::view)));
    cr_expect_eq(view.workers, 2u);
    cr_expect((*quiet)->ask());
}

// Anything may come: an answer of the right size, or none.
Test(server, bears_requests_of_random_bytes, .timeout = 60)
{
    Server server = open_server();
    std::mt19937_64 random(11);
    std::vector<Server::Answer> kept;
    for (int i = 0; i < 20000; ++i) {
        Request r;
        for (size_t at = 0; at < sizeof r; at += 8) {
            const uint64_t word = random();
            memcpy(reinterpret_cast<char *>(&r) + at, &word, std::min<size_t>(8, sizeof r - at));
        }
        if (i % 10) r.protocol = kProtocol;
        if (i % 3) r.ask = static_cast<Ask>(random() % 7);
        if (i % 4) {
            strcpy(r.gpu, i % 8 ? "GPU-1" : "GPU-2");
            snprintf(r.lease, sizeof r.lease, "%d", static_cast<int>(random() % 5));
        }
        const size_t size = i % 7 ? sizeof r : random() % sizeof r;
        Server::Answer answer = server.answer(&r, size, clock_now());
        cr_assert_leq(answer.bytes.size(), kMostReply);
        cr_assert(answer.bytes.empty() || answer.bytes.size() >= sizeof(Reply));
        if (answer.descriptor) kept.push_back(std::move(answer));
        if (kept.size() > 50) kept.clear();
    }
}

Test(server, what_rgpud_has_it_keep_is_there_until_the_lease_ends)
{
    Server server = open_server();
    int ends[2];
    cr_assert_eq(pipe(ends), 0);
    Request keep = request(Ask::keep, "memory");
    Server::Answer answer = server.answer(&keep, sizeof keep, clock_now(), Fd(ends[0]));
    cr_expect_eq(reply(answer).failed, 0);
    // Each time a copy of its own.
    for (int i = 0; i < 3; ++i) {
        answer = ask(server, request(Ask::kept, "memory"));
        cr_assert(answer.descriptor);
        cr_assert_eq(write(ends[1], "x", 1), 1);
        char byte = 0;
        cr_expect_eq(read(answer.descriptor.get(), &byte, 1), 1);
    }
    for (const Request &other :
         {request(Ask::kept, "other"), request(Ask::kept, "memory", "another"),
          request(Ask::keep, "nothing")}) {
        answer = ask(server, other);
        cr_expect(!answer.descriptor);
        cr_expect_eq(reply(answer).failed, 1);
    }
    ask(server, request(Ask::end_lease, "", "another"));
    cr_expect(ask(server, request(Ask::kept, "memory")).descriptor);
    ask(server, request(Ask::end_lease, ""));
    cr_expect(!ask(server, request(Ask::kept, "memory")).descriptor);
    close(ends[1]);
}

Test(server, tells_the_workers_of_a_lease_their_new_size)
{
    Server server = open_server();
    Request wants = request(Ask::seat);
    wants.memory = 1000;
    Server::Answer place = ask(server, wants);
    cr_assert(place.descriptor);
    Result<Page<const Says>> words = look_at_words(place.descriptor.get());
    cr_assert(words.has_value());
    cr_expect_eq((*words)->memory, 1000u);
    Request change = request(Ask::change, "GPU-1", "lease", {20, 70, 100});
    change.memory = 2000;
    Server::Answer answer = ask(server, change);
    Reply reply;
    memcpy(static_cast<void *>(&reply), answer.bytes.data(), sizeof reply);
    cr_expect(!reply.failed && reply.count == 1);
    cr_expect_eq((*words)->memory, 2000u);
    change = request(Ask::change, "GPU-2");
    answer = ask(server, change);
    memcpy(static_cast<void *>(&reply), answer.bytes.data(), sizeof reply);
    cr_expect(!reply.failed && reply.count == 0, "it has no worker there");
}
