// SPDX-License-Identifier: Apache-2.0
// The GPU host that processes share: slots, memory that is counted across them and comes back from
// the dead.
#include "softgpu/driver/base/gpu_host.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

using namespace rgpu::softgpu::driver;

namespace {

std::string directory;

void setup()
{
    char name[] = "/tmp/rgpu-host-test-XXXXXX";
    directory = mkdtemp(name);
}

void teardown() { std::filesystem::remove_all(directory); }

std::unique_ptr<GpuHost> join()
{
    auto host = GpuHost::join(directory);
    cr_assert(host.has_value(), "%s", host ? "" : host.error().text.c_str());
    return std::move(*host);
}

// Something of the process's own in a slot's window, which is whole and empty before.
void *occupy(int slot)
{
    void *at = reinterpret_cast<void *>(kAddresses.base + slot * kAddresses.slot_bytes);
    constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE;
    return mmap(at, kAddresses.slot_bytes, PROT_NONE, kFlags, -1, 0) == at ? at : nullptr;
}

bool is_empty(int slot)
{
    void *window = occupy(slot);
    return window && munmap(window, kAddresses.slot_bytes) == 0;
}

// A process that takes memory, says so, and waits to be killed.
struct Tenant {
    pid_t pid;
    int slot = -1;
    bool got = false;

    Tenant(uint64_t bytes, uint64_t limit)
    {
        int fds[2];
        cr_assert_eq(pipe(fds), 0);
        pid = fork();
        if (!pid) {
            auto host = GpuHost::join(directory);
            int answer[2] = {host ? (*host)->slot() : -1, host && (*host)->take(0, bytes, limit)};
            if (write(fds[1], answer, sizeof answer) != sizeof answer) _exit(1);
            for (;;) pause();
        }
        int answer[2];
        cr_assert_eq(read(fds[0], answer, sizeof answer), (ssize_t)sizeof answer);
        slot = answer[0];
        got = answer[1];
        close(fds[0]);
        close(fds[1]);
    }
    ~Tenant() { end(); }
    void end()
    {
        if (pid <= 0) return;
        kill(pid, SIGKILL);
        waitpid(pid, nullptr, 0);
        pid = 0;
    }
};

}  // namespace

TestSuite(driver_host, .init = setup, .fini = teardown);

Test(driver_host, counts_memory_of_each_device)
{
    auto host = join();
    cr_expect(host->take(0, 60, 100));
    cr_expect(!host->take(0, 41, 100));
    cr_expect(host->take(0, 40, 100));
    cr_expect(host->take(1, 100, 100));
    cr_expect_eq(host->used(0), 100);
    host->give(0, 60);
    cr_expect_eq(host->used(0), 40);
    cr_expect_eq(host->used(1), 100);
}

Test(driver_host, processes_share_memory_and_have_slots_of_their_own)
{
    auto host = join();
    Tenant a(60, 100), b(60, 100);
    cr_expect(a.got);
    cr_expect(!b.got);
    cr_expect(a.slot >= 0 && b.slot >= 0 && a.slot != b.slot && a.slot != host->slot() &&
              b.slot != host->slot());
    cr_expect_eq(host->used(0), 60);
    cr_expect(!host->take(0, 41, 100));
    cr_expect(host->take(0, 40, 100));
}

Test(driver_host, the_dead_give_memory_and_slot_back)
{
    auto host = join();
    Tenant a(60, 100);
    cr_expect_eq(host->used(0), 60);
    a.end();
    cr_expect_eq(host->used(0), 0);
    cr_expect(host->take(0, 100, 100));
    Tenant b(0, 100);
    cr_expect_eq(b.slot, a.slot);
}

Test(driver_host, a_child_does_not_keep_its_dead_parents_memory)
{
    auto host = join();
    int fds[2];
    cr_assert_eq(pipe(fds), 0);
    const pid_t parent = fork();
    if (!parent) {
        auto own = GpuHost::join(directory);
        (*own)->take(0, 60, 100);
        const pid_t child = fork();
        if (!child) {
            for (;;) pause();
        }
        if (write(fds[1], &child, sizeof child) != sizeof child) _exit(1);
        for (;;) pause();
    }
    pid_t child;
    cr_assert_eq(read(fds[0], &child, sizeof child), (ssize_t)sizeof child);
    cr_expect_eq(host->used(0), 60);
    kill(parent, SIGKILL);
    waitpid(parent, nullptr, 0);
    cr_expect_eq(host->used(0), 0);
    kill(child, SIGKILL);
}

Test(driver_host, goes_round_addresses_that_the_process_has_taken)
{
    int first = join()->slot();
    cr_assert(occupy(first));
    auto host = join();
    cr_expect_neq(host->slot(), first);
    cr_expect_eq(host->base(), kAddresses.base + host->slot() * kAddresses.slot_bytes);
    cr_expect(!is_empty(host->slot()));
    int taken = host->slot();
    host.reset();
    cr_expect(is_empty(taken), "the end of the host gives the window back");
}

Test(driver_host, has_memory_where_ThreadSanitizer_allows_it)
{
    auto host = GpuHost::join(directory, kLowAddresses);
    cr_assert(host.has_value());
    const uint64_t end = (*host)->base() + (*host)->bytes();
    cr_expect_leq(end, uint64_t{1} << 39);
    cr_expect(kLowAddresses.contains((*host)->base()) && kLowAddresses.contains(end - 1));
    // A process with the usual addresses has another slot of the same host.
    auto other = Tenant(60, 100);
    cr_expect(other.got && other.slot != (*host)->slot());
    cr_expect(!(*host)->take(0, 60, 100));
}

Test(driver_host, takes_no_more_processes_than_slots)
{
    std::vector<std::unique_ptr<Tenant>> tenants;
    // Criterion keeps its own memory at a random address, now and then in a slot's window.
    int slots = 0;
    for (int i = 0; i < kAddresses.slots; i++) slots += is_empty(i);
    for (int i = 0; i < slots; i++) tenants.push_back(std::make_unique<Tenant>(0, 100));
    for (const auto &t : tenants) cr_expect_geq(t->slot, 0);
    auto host = GpuHost::join(directory);
    cr_assert(!host);
    cr_expect_eq(host.error().kind, rgpu::ErrorKind::unavailable);
}

Test(driver_host, refuses_a_file_that_is_not_its_own)
{
    FILE *f = fopen((directory + "/devices").c_str(), "w");
    fputs("something else", f);
    fclose(f);
    auto host = GpuHost::join(directory);
    cr_assert(!host);
    cr_expect(host.error().text.find(directory + "/devices") != std::string::npos);
}

Test(driver_host, shares_memory_only_with_those_who_have_its_file)
{
    auto one = GpuHost::join(rgpu::Fd(memfd_create("one", MFD_CLOEXEC)), "one");
    auto two = GpuHost::join(rgpu::Fd(memfd_create("two", MFD_CLOEXEC)), "two");
    cr_assert(one && two);
    cr_expect((*one)->take(0, 100, 100));
    cr_expect((*two)->take(0, 60, 100));
    cr_expect_eq((*one)->held(0), 100u);
    cr_expect_eq((*two)->used(0), 60u);
}

Test(driver_host, is_open_to_those_who_may_write_the_directory)
{
    cr_assert_eq(chmod(directory.c_str(), 0770), 0);
    auto host = join();
    struct stat st;
    cr_assert_eq(stat((directory + "/devices").c_str(), &st), 0);
    cr_expect_eq(st.st_mode & 0777, 0660);
}
