// SPDX-License-Identifier: Apache-2.0
// Two clients in one process: nothing of the one is in the other. What is the calling thread's own,
// its current context, plays no part here (t/unit/recorder/two_clients_test.cc).
#include <criterion/criterion.h>

#include <array>
#include <thread>
#include <vector>

#include "interpose/code/known_launches.h"
#include "interpose/graph/node_memory.h"
#include "interpose/mirror/mirror.h"
#include "interpose/state/client.h"
#include "interpose/state/family.h"
#include "interpose/state/handles.h"
#include "interpose/state/ranges.h"
#include "interpose/state/servers.h"

using namespace rgpu::interpose;
using rgpu::calls::HandleId;
using rgpu::calls::HandleKind;

namespace {

// Calls go to `client` while one lives.
class In {
public:
    explicit In(Client &client) : before_(Client::current()) { Client::make_current(client); }
    ~In() { Client::make_current(before_); }

private:
    Client &before_;
};

Client one, other;

CUstream new_stream()
{
    Handles &h = Handles::get();
    return h.handle<CUstream>(h.make(HandleKind::stream));
}

}  // namespace

Test(client, is_the_process_s_own_where_no_test_made_another)
{
    cr_assert_neq(&Client::current(), &one);
    Client &own = Client::current();
    {
        const In in(one);
        cr_assert_eq(&Client::current(), &one);
    }
    cr_assert_eq(&Client::current(), &own);
}

Test(client, has_handles_of_its_own)
{
    CUstream first, second;
    {
        const In in(one);
        first = new_stream();
    }
    {
        const In in(other);
        second = new_stream();
        cr_assert(Handles::get().id(second));
        cr_assert_not(Handles::get().id(first), "a handle of the other client is none here");
        Handles::get().end(*Handles::get().id(second));
    }
    const In in(one);
    cr_assert_eq(Handles::get().id(first), rgpu::calls::kFirstHandle);
    cr_assert_not(Handles::get().id(second));
}

Test(client, has_addresses_of_its_own)
{
    constexpr CUdeviceptr kAddress = 0x7f0000000000;
    char host[64];
    const auto base = reinterpret_cast<uintptr_t>(host);
    {
        const In in(one);
        note_allocation(kAddress, 4096);
        note_host({base, sizeof host, 0, false, 0, 0});
        cr_assert(find_device(kAddress + 4095));
        cr_assert(find_host(host));
    }
    {
        const In in(other);
        cr_assert_not(find_device(kAddress));
        cr_assert_not(find_host(host));
        cr_assert_not(forget_host(base, false));
        note_allocation(kAddress, 64);
        cr_assert_not(find_device(kAddress + 64));
    }
    const In in(one);
    cr_assert(find_device(kAddress + 64));
    cr_assert(forget_host(base, false));
}

Test(client, counts_its_own_registrations)
{
    {
        const In in(one);
        mirror::note_registration(4096, 1);
        cr_assert(mirror::any());
    }
    const In in(other);
    cr_assert_not(mirror::any());
}

Test(client, knows_its_own_launches)
{
    const LaunchShape shape{.function = 40, .grid = {2, 1, 1}, .block = {32, 1, 1}};
    KnownLimits limits, changed;
    limits.add(0, {.threads = 1024, .dynamic_shared = 4096});
    changed.add(0, {.threads = 1024, .dynamic_shared = 4096});
    {
        const In in(one);
        note_taken(shape);
        cr_assert(was_taken(shape));
        cr_assert(limits.covers(0, 32, 4096));
        changed.set_dynamic_shared(0, 1024);
        cr_assert_not(limits.covers(0, 32, 4096), "a function's limit fell: all are asked again");
    }
    const In in(other);
    cr_assert_not(was_taken(shape));
    cr_assert(limits.covers(0, 32, 4096));
}

Test(client, keeps_its_own_nodes_memory_and_parts)
{
    uint8_t *memory;
    {
        const In in(one);
        memory = keep(40, {1, 2, 3});
        cr_assert_eq(keep(40, {1, 2, 3}), memory);
        const HandleId graph = Handles::get().make(HandleKind::graph);
        belongs(Handles::get().make(HandleKind::graph_node, graph), graph);
    }
    const In in(other);
    cr_assert_neq(keep(40, {1, 2, 3}), memory);
    const HandleId graph = Handles::get().make(HandleKind::graph);
    cr_assert(take_parts(graph).empty());
}

Test(client, of_several_servers_stands_beside_one_of_a_single_one)
{
    {
        const In in(one);
        client_counter(Counter::several_servers) = 1;
        cr_assert(spanning());
    }
    const In in(other);
    cr_assert_not(spanning());
    cr_assert_null(session());
    cr_assert(all_sessions().empty());
}

namespace {

struct Counted {
    static inline std::atomic<int> there{0};
    std::atomic<int> used{0};
    Counted() { there++; }
    ~Counted() { there--; }
};

}  // namespace

Test(client, makes_one_part_for_threads_that_come_together)
{
    static std::array<Client, 50> clients;
    int round = 0;
    for (Client &client : clients) {
        std::atomic<int> ready{0};
        std::vector<std::thread> threads;
        threads.reserve(8);
        for (int t = 0; t < 8; t++)
            threads.emplace_back([&] {
                for (ready++; ready < 8;) {}
                client.part<Counted>(Part::start).used++;
            });
        for (std::thread &t : threads) t.join();
        cr_assert_eq(client.part<Counted>(Part::start).used, 8);
        cr_assert_eq(Counted::there, ++round, "those that were made in vain are gone");
    }
}
