// SPDX-License-Identifier: Apache-2.0
// A lease's meter: what its workers count is there for whoever reads the file later.
#include "serverd/meter.h"

#include <sys/mman.h>
#include <unistd.h>

#include <criterion/criterion.h>

using namespace rgpu;
using namespace rgpu::serverd;

Test(meter, adds_up_what_several_count)
{
    Fd file(memfd_create("meter", MFD_CLOEXEC));
    cr_assert(Meter::prepare(file.get(), 3).has_value());
    {
        auto one = Meter::map(file.get()), other = Meter::map(file.get());
        cr_assert(one.has_value() && other.has_value());
        one->gpu(2).blocked += 5;
        other->gpu(2).blocked += 6;
        raise(one->gpu(0).memory_peak, 100);
        raise(other->gpu(0).memory_peak, 50);
        other->lease().bytes_in += 7;
    }
    auto later = Meter::map(file.get());
    cr_assert(later.has_value());
    cr_expect_eq(later->gpus(), 3u);
    cr_expect_eq(later->gpu(2).blocked, 11);
    cr_expect_eq(later->gpu(0).memory_peak, 100u);
    cr_expect_eq(later->lease().bytes_in, 7u);
    const Meter::Reading reading = Meter::read(file.get(), 3);
    cr_assert_eq(reading.gpus.size(), 3u);
    cr_expect_eq(reading.gpus[2].blocked, 11);
    cr_expect_eq(reading.gpus[0].memory_peak, 100u);
    cr_expect_eq(reading.bytes_in, 7u);
}

Test(meter, bears_what_a_broken_worker_leaves)
{
    Fd file(memfd_create("meter", MFD_CLOEXEC));
    cr_expect_not(Meter::map(file.get()).has_value(), "empty");
    cr_assert(Meter::prepare(file.get(), 2).has_value());
    uint64_t many = 1000000;
    cr_assert_eq(pwrite(file.get(), &many, sizeof many, offsetof(LeaseMeter, gpus)),
                 static_cast<ssize_t>(sizeof many));
    auto meter = Meter::map(file.get());
    cr_assert(meter.has_value());
    cr_expect_eq(meter->gpus(), 2u, "the file's size counts, not its words");
    cr_expect_eq(&meter->gpu(7), &meter->gpu(1));
    cr_assert_eq(pwrite(file.get(), "another", 8, 0), 8);
    cr_expect_not(Meter::map(file.get()).has_value(), "another's file");
    cr_assert_eq(ftruncate(file.get(), 30), 0);
    cr_expect_not(Meter::map(file.get()).has_value(), "cut off");
    const Meter::Reading reading = Meter::read(file.get(), 2);
    cr_assert_eq(reading.gpus.size(), 2u, "of what the lease has, whatever the file has");
    cr_expect_eq(reading.gpus[1].launches, 0u);
    cr_expect_not(Meter::prepare(file.get(), 0).has_value());
}
