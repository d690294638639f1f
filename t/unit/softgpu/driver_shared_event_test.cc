// SPDX-License-Identifier: Apache-2.0
// Events and memory that processes share by name.
#include "softgpu/driver/base/shared_event.h"

#include <criterion/criterion.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

using namespace rgpu::softgpu::driver;

Test(shared_event, counts_records_and_passes)
{
    auto e = SharedEvent::create();
    cr_assert(e.has_value());
    cr_expect((*e)->passed((*e)->newest()), "an event that was never recorded has passed");
    const uint64_t first = (*e)->record(), second = (*e)->record();
    cr_expect(!(*e)->passed(first) && (*e)->newest() == second);
    (*e)->pass(second);
    (*e)->pass(first);  // late: takes nothing back
    cr_expect((*e)->passed(first) && (*e)->passed(second));
}

Test(shared_event, is_seen_and_awaited_by_another_process)
{
    auto e = SharedEvent::create();
    const SharedFileName name = (*e)->name();
    const uint64_t number = (*e)->record();
    const pid_t child = fork();
    if (child == 0) {
        auto same = SharedEvent::open(name);
        if (!same || (*same)->newest() != number || (*same)->passed(number)) _exit(1);
        (*same)->pass(number);
        _exit(0);
    }
    (*e)->wait(number);
    int status = 1;
    waitpid(child, &status, 0);
    cr_expect_eq(status, 0);
}

Test(shared_event, a_recorder_that_died_is_not_waited_for)
{
    auto e = SharedEvent::create();
    const pid_t child = fork();
    if (child == 0) {
        (*e)->record();
        _exit(0);
    }
    int status = 1;
    waitpid(child, &status, 0);
    (*e)->wait((*e)->newest());
    cr_expect(!(*e)->passed((*e)->newest()));
}

Test(shared_file, opens_only_for_who_knows_the_key)
{
    auto fd = make_shared_file(4096);
    cr_assert(fd.has_value());
    SharedFileName name = name_of(*fd);
    auto there = open_shared_file(name);
    cr_assert(there.has_value(), "%s", there ? "" : there.error().text.c_str());
    cr_expect_eq(pwrite(there->get(), "x", 1, 0), 1);
    char c = 0;
    cr_expect(pread(fd->get(), &c, 1, 0) == 1 && c == 'x');
    name.key ^= 2;
    cr_expect(!open_shared_file(name));
    name.key = 0;
    cr_expect(!open_shared_file(name));
    name = name_of(*fd);
    int other[2];
    cr_assert_eq(pipe(other), 0);
    name.fd = other[0];
    cr_expect(!open_shared_file(name), "a pipe is no memory");
    name.fd = 12345;
    cr_expect(!open_shared_file(name));
}
