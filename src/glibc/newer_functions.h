// SPDX-License-Identifier: Apache-2.0
// What stands for functions of newer C libraries where the process has glibc 2.28.
//
// The functions themselves have the C library's names, hidden in the product that is linked with
// them; nothing includes this but their tests.
#pragma once

#include <pthread.h>
#include <time.h>

namespace rgpu::glibc {

// The time on another clock at which `at` is reached, as both clocks stand now.
timespec on_other_clock(const timespec &at, const timespec &now, const timespec &other_now);

// pthread_cond_clockwait() for a condition of the real-time clock. A clock that is set while it
// waits makes it wait shorter or longer.
int wait_on_clock(pthread_cond_t *condition, pthread_mutex_t *mutex, clockid_t clock,
                  const timespec *until);

// The .eh_frame_hdr of the object that has this address; null where there is none.
const char *find_unwind_table(void *address);

}  // namespace rgpu::glibc
