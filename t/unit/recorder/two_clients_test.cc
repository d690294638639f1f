// SPDX-License-Identifier: Apache-2.0
// Two clients in one process, each with a connection to a worker of its own: calls of the one go
// to its server, and its handles and addresses mean nothing to the other. The threads take turns,
// for only one client at a time is the process's (interpose/state/client.h).
#include <criterion/criterion.h>

#include <condition_variable>

#include "interpose/state/client.h"
#include "interpose/state/ranges.h"
#include "interpose/stub/by_hand.h"
#include "t/unit/recorder/support.h"

using namespace rgpu::test;
using rgpu::interpose::Client;
using rgpu::interpose::find_device;
using rgpu::interpose::Handles;

namespace own = rgpu::interpose::own;

namespace {

// A program of one thread, and its client.
class Program {
public:
    Program() : thread_([this] { work(); }) {}
    ~Program()
    {
        turn(nullptr);
        thread_.join();
    }
    Program(const Program &) = delete;
    Program &operator=(const Program &) = delete;

    // Carries `calls` out in the program's thread while its client is the process's.
    void turn(const std::function<void()> *calls)
    {
        std::unique_lock lock(mutex_);
        calls_ = calls, given_ = true;
        changed_.notify_all();
        changed_.wait(lock, [&] { return !given_; });
    }
    template <class F> void operator()(F &&calls)
    {
        const std::function<void()> f(std::forward<F>(calls));
        turn(&f);
    }
    Wire &wire() { return *wire_; }

private:
    void work()
    {
        for (bool more = true; more;) {
            std::unique_lock lock(mutex_);
            changed_.wait(lock, [&] { return given_; });
            Client::make_current(client_);
            if (!wire_) wire_ = new Wire;
            more = calls_;
            if (more) (*calls_)();
            given_ = false;
            changed_.notify_all();
        }
    }

    Client &client_ = *new Client;  // like its connection, as long as the process
    Wire *wire_ = nullptr;
    std::mutex mutex_;
    std::condition_variable changed_;
    const std::function<void()> *calls_ = nullptr;
    bool given_ = false;
    std::thread thread_;
};

}  // namespace

Test(two_clients, each_talk_to_their_own_server)
{
    use_recorder();
    Program one, other;
    CUdeviceptr memory = 0;
    CUstream stream = nullptr;
    rgpu::interpose::ServerSession *of_one = nullptr;
    one([&] {
        of_one = rgpu::interpose::session();
        cr_assert_eq(of_one, &one.wire().client());
        cr_assert_eq(own::cuMemAlloc_v2(&memory, 4096), CUDA_SUCCESS);
        cr_assert(find_device(memory));
        stream = one.wire().handle(reinterpret_cast<CUstream>(0x57));
        cr_assert_eq(rgpu::interpose::remote<CallId::cuMemsetD8Async>(memory, 1, 64, stream),
                     CUDA_SUCCESS);
        cr_assert_eq(one.wire().barrier(), CUDA_SUCCESS);
    });
    other([&] {
        cr_assert_neq(rgpu::interpose::session(), of_one);
        cr_assert_not(find_device(memory), "the other's memory");
        cr_assert_eq(rgpu::interpose::remote<CallId::cuMemsetD8Async>(memory, 2, 64, stream),
                     CUDA_ERROR_INVALID_HANDLE);
        const auto mine = other.wire().handle(reinterpret_cast<CUstream>(0x58));
        cr_assert_neq(mine, stream);
        cr_assert_eq(rgpu::interpose::remote<CallId::cuMemsetD8Async>(memory, 3, 64, mine),
                     CUDA_SUCCESS);
        cr_assert_eq(other.wire().barrier(), CUDA_SUCCESS);
    });
    // The wires saw what their own programs did, and nothing else.
    const Bytes first = one.wire().last_call(CallId::cuMemsetD8Async).body;
    const Bytes second = other.wire().last_call(CallId::cuMemsetD8Async).body;
    cr_assert_neq(first.size(), 0);
    cr_assert(first != second);
    one([&] {
        cr_assert_eq(rgpu::interpose::session(), of_one);
        cr_assert(find_device(memory));
        cr_assert(Handles::get().id(stream), "its handles are there when it goes on");
        cr_assert_eq(one.wire().last_call(CallId::cuMemsetD8Async).body.size(), first.size());
        cr_assert_eq(own::cuMemFree_v2(memory), CUDA_SUCCESS);
        cr_assert_not(find_device(memory));
        cr_assert_eq(one.wire().barrier(), CUDA_SUCCESS);
    });
    cr_assert_eq(other.wire().last_call(CallId::cuMemFree_v2).header.type, 0,
                 "the other's server saw no cuMemFree");
    cr_assert_neq(one.wire().last_call(CallId::cuMemFree_v2).header.type, 0);
}
