// A lease's meter: what its workers count is there for whoever maps the file later.
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
        one->gpu(2).busy += 5;
        other->gpu(2).busy += 6;
        raise(one->gpu(0).memory_peak, 100);
        raise(other->gpu(0).memory_peak, 50);
        other->lease().bytes_in += 7;
    }
    auto later = Meter::map(file.get());
    cr_assert(later.has_value());
    cr_expect_eq(later->gpus(), 3u);
    cr_expect_eq(later->gpu(2).busy, 11);
    cr_expect_eq(later->gpu(0).memory_peak, 100u);
    cr_expect_eq(later->lease().bytes_in, 7u);
    cr_expect_gt(later->lease().made, 0);
}

Test(meter, bears_what_a_broken_worker_leaves)
{
    Fd file(memfd_create("meter", MFD_CLOEXEC));
    cr_expect_not(Meter::map(file.get()).has_value(), "empty");
    cr_assert(Meter::prepare(file.get(), 2).has_value());
    uint32_t many = 1000000;
    cr_assert_eq(pwrite(file.get(), &many, sizeof many, offsetof(LeaseMeter, gpus)), static_cast<ssize_t>(sizeof many));
    auto meter = Meter::map(file.get());
    cr_assert(meter.has_value());
    cr_expect_eq(meter->gpus(), 2u, "the file's size counts, not its words");
    cr_expect_eq(&meter->gpu(7), &meter->gpu(1));
    cr_assert_eq(pwrite(file.get(), "another", 8, 0), 8);
    cr_expect_not(Meter::map(file.get()).has_value(), "another's file");
    cr_assert_eq(ftruncate(file.get(), 30), 0);
    cr_expect_not(Meter::map(file.get()).has_value(), "cut off");
    cr_expect_not(Meter::prepare(file.get(), 0).has_value());
}
