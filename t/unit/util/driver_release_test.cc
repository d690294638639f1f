// SPDX-License-Identifier: Apache-2.0
#include "util/driver_release.h"

#include <criterion/criterion.h>

using namespace rgpu;

Test(driver_release, is_numbers_with_dots_between_them)
{
    for (const char *good : {"570", "570.86", "580.95.05", "1.2.3.4", "999999"})
        cr_expect(is_driver_release(good), "%s", good);
    for (const char *bad : {"", ".", "570.", ".570", "570..1", "570.x", "v570", "570 ", "-1",
                            "1.2.3.4.5", "1234567", "580.65.06-beta"})
        cr_expect(!is_driver_release(bad), "%s", bad);
}

Test(driver_release, is_compared_number_by_number)
{
    struct {
        const char *a, *b;
    } older[] = {{"570.9", "570.86.10"},
                 {"570.86.9", "570.86.10"},
                 {"99", "100"},
                 {"570", "570.0.1"},
                 {"", "1"},
                 {"no release", "1"}};
    for (const auto &c : older) {
        cr_expect(is_older_release(c.a, c.b), "%s is older than %s", c.a, c.b);
        cr_expect(!is_older_release(c.b, c.a), "%s is not older than %s", c.b, c.a);
    }
    for (auto [a, b] : {std::pair("570", "570.0"), {"580.65.06", "580.65.6"}, {"", ""}})
        cr_expect(!is_older_release(a, b) && !is_older_release(b, a), "%s and %s", a, b);
}
