#include "pool/client/acquire.h"

#include <criterion/criterion.h>

using namespace rgpu;
using namespace rgpu::pool;

Test(acquire, pauses_double_up_to_the_last)
{
    cr_assert_eq(pause(0, 0.5), defaults::kFirstPause);
    cr_assert_eq(pause(1, 0.5), defaults::kFirstPause * 2);
    cr_assert_eq(pause(3, 0.5), defaults::kFirstPause * 8);
    cr_assert_eq(pause(100, 0.5), defaults::kLastPause);
}

Test(acquire, jitter_is_a_quarter_at_most)
{
    for (int n : {0, 3, 100}) {
        double middle = static_cast<double>(pause(n, 0.5).count());
        cr_assert_geq(static_cast<double>(pause(n, 0).count()), middle * 0.74);
        cr_assert_leq(static_cast<double>(pause(n, 0.999).count()), middle * 1.26);
    }
}
