// SPDX-License-Identifier: Apache-2.0
// What stands for functions that glibc 2.28 does not have.
#include "glibc/newer_functions.h"

#include <criterion/criterion.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <thread>

using namespace rgpu::glibc;

Test(newer_functions, a_time_is_as_far_away_on_another_clock)
{
    timespec at = on_other_clock({10, 500}, {8, 400}, {1000, 0});
    cr_expect_eq(at.tv_sec, 1002);
    cr_expect_eq(at.tv_nsec, 100);
    at = on_other_clock({10, 100}, {8, 400}, {1000, 0});
    cr_expect_eq(at.tv_sec, 1001);
    cr_expect_eq(at.tv_nsec, 999'999'700);
    at = on_other_clock({10, 999'999'999}, {8, 0}, {1000, 999'999'999});
    cr_expect_eq(at.tv_sec, 1003);
    cr_expect_eq(at.tv_nsec, 999'999'998);
}

Test(newer_functions, a_wait_ends_at_its_time_on_each_clock)
{
    for (clockid_t clock : {CLOCK_MONOTONIC, CLOCK_REALTIME}) {
        pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
        pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
        pthread_mutex_lock(&mutex);
        timespec until, after;
        clock_gettime(clock, &until);
        until.tv_nsec += 20'000'000;
        if (until.tv_nsec >= 1'000'000'000) until.tv_nsec -= 1'000'000'000, ++until.tv_sec;
        int rc = 0;
        while (!rc) rc = wait_on_clock(&condition, &mutex, clock, &until);
        cr_expect_eq(rc, ETIMEDOUT);
        clock_gettime(clock, &after);
        // The two clocks are read one after the other.
        const double early_s = double(until.tv_sec - after.tv_sec) +
                               double(until.tv_nsec - after.tv_nsec) / 1e9;
        cr_expect_lt(early_s, 0.001);
        pthread_mutex_unlock(&mutex);
    }
}

Test(newer_functions, a_wait_ends_when_it_is_woken)
{
    static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    static bool done = false;
    pthread_mutex_lock(&mutex);
    std::thread waker([] {
        pthread_mutex_lock(&mutex);
        done = true;
        pthread_cond_signal(&condition);
        pthread_mutex_unlock(&mutex);
    });
    timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += 60;
    int rc = 0;
    while (!done && !rc) rc = wait_on_clock(&condition, &mutex, CLOCK_MONOTONIC, &until);
    pthread_mutex_unlock(&mutex);
    waker.join();
    cr_expect_eq(rc, 0);
}

Test(newer_functions, the_unwind_table_is_that_of_the_object)
{
    dl_find_object real{};
    for (void *address :
         {reinterpret_cast<void *>(&find_unwind_table), dlsym(RTLD_DEFAULT, "qsort"),
          dlsym(RTLD_DEFAULT, "_Unwind_RaiseException")}) {
        auto system = reinterpret_cast<decltype(&_dl_find_object)>(
            dlsym(dlopen("libc.so.6", RTLD_LAZY), "_dl_find_object"));
        if (!system) cr_skip_test("this C library has none");
        cr_assert_eq(system(address, &real), 0);
        cr_expect_eq(find_unwind_table(address), static_cast<char *>(real.dlfo_eh_frame));
    }
    cr_expect_null(find_unwind_table(&real), "the stack is no object");
    cr_expect_null(find_unwind_table(nullptr));
}

Test(newer_functions, a_files_status_is_what_the_system_says)
{
    // The unit program is linked with these functions, too: statx() is the system's own.
    struct stat status {};
    struct statx wanted {};
    cr_assert_eq(statx(AT_FDCWD, "/proc/self/exe", 0, STATX_SIZE | STATX_INO, &wanted), 0);
    cr_assert_eq(stat("/proc/self/exe", &status), 0);
    cr_expect_eq(static_cast<uint64_t>(status.st_size), wanted.stx_size);
    cr_expect_eq(status.st_ino, wanted.stx_ino);
    cr_assert_eq(lstat("/proc/self/exe", &status), 0);
    cr_expect(S_ISLNK(status.st_mode));
    cr_expect_eq(stat("/no/such/file", &status), -1);
    cr_expect_eq(errno, ENOENT);
}

Test(newer_functions, a_thread_has_the_systems_number)
{
    cr_expect_eq(gettid(), getpid(), "of the first thread");
    pid_t other = 0;
    std::thread([&] { other = gettid(); }).join();
    cr_expect_neq(other, getpid());
    cr_expect_gt(other, 0);
}
