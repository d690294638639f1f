// SPDX-License-Identifier: Apache-2.0
#include "pool/ledger/span.h"

#include <criterion/criterion.h>

using namespace rgpu;
using namespace rgpu::pool;

// Each server has nothing but these.
static std::vector<Choice> choices(const std::vector<int> &sizes)
{
    std::vector<Choice> out;
    for (int size : sizes) {
        out.push_back({size, {}});
        out.back().fit.whole_taken = size;
    }
    return out;
}

static std::string parts(int gpus, const std::vector<Choice> &from)
{
    std::string text;
    for (const Part &part : parts_for(gpus, from))
        text += (text.empty() ? "" : " ") + std::to_string(part.choice) + ":" +
                std::to_string(part.gpus);
    return text;
}

Test(span, one_server_that_has_all_goes_before_several)
{
    cr_expect_eq(parts(3, choices({2, 3, 2})), "1:3");
    auto two = choices({3, 3});
    two[0].fit.whole_left = 1;
    cr_expect_eq(parts(3, two), "1:3", "the best of them");
    cr_expect_eq(parts(1, choices({1})), "0:1");
}

Test(span, the_fewest_servers_and_the_least_left_over)
{
    cr_expect_eq(parts(4, choices({1, 1, 3, 1})), "0:1 2:3");
    cr_expect_eq(parts(4, choices({3, 3, 2, 2})), "2:2 3:2", "the holes of three stay whole");
    cr_expect_eq(parts(5, choices({4, 4, 1})), "0:4 2:1");
    cr_expect_eq(parts(6, choices({4, 4, 3, 2})), "0:4 3:2");
    cr_expect_eq(parts(3, choices({1, 0, 1, 1})), "0:1 2:1 3:1");
    cr_expect_eq(parts(7, choices({2, 2, 2, 2})), "0:1 1:2 2:2 3:2",
                 "one of them keeps what is too much");
}

Test(span, what_is_too_much_stays_where_the_largest_hole_is)
{
    auto from = choices({3, 3});
    from[1].fit.whole_left = 2;
    cr_expect_eq(parts(4, from), "0:3 1:1");
    from[0].fit.whole_left = 4;
    cr_expect_eq(parts(4, from), "0:1 1:3");
}

Test(span, too_few_are_nothing)
{
    cr_expect_eq(parts(4, choices({2, 1, 0})), "");
    cr_expect_eq(parts(1, choices({0, 0})), "");
    cr_expect_eq(parts(1, {}), "");
}

Test(span, every_choice_is_the_sum_of_as_few_as_can_be)
{
    unsigned seed = 1;
    auto random = [&](unsigned below) {
        return (seed = seed * 1103515245 + 12345) / 65536 % below;
    };
    for (int round = 0; round < 2000; ++round) {
        std::vector<int> sizes;
        for (unsigned n = random(7) + 1; n > 0; --n) sizes.push_back(static_cast<int>(random(5)));
        const int gpus = static_cast<int>(random(12)) + 1;
        // Never more than is wanted.
        for (int &size : sizes) size = std::min(size, gpus);
        size_t fewest = 0;
        for (unsigned set = 1; set < 1u << sizes.size(); ++set) {
            int sum = 0;
            size_t count = 0;
            for (size_t i = 0; i < sizes.size(); ++i)
                if (set >> i & 1) sum += sizes[i], ++count;
            if (sum >= gpus && (!fewest || count < fewest)) fewest = count;
        }
        auto got = parts_for(gpus, choices(sizes));
        cr_assert_eq(got.size(), fewest, "round %d", round);
        int sum = 0;
        for (const Part &part : got) {
            cr_assert(part.gpus >= 1 && part.gpus <= sizes[part.choice], "round %d", round);
            sum += part.gpus;
        }
        cr_assert_eq(sum, fewest ? gpus : 0, "round %d", round);
    }
}

static Grant grant(const char *server, size_t gpus, const char *span = "", int all = 0)
{
    Grant out;
    out.server = server;
    out.lease.gpus.resize(gpus);
    out.lease.span = {span, all};
    return out;
}

static std::string whole(const std::vector<Grant> &grants)
{
    std::string text;
    for (const Grant &one : whole_request(grants)) text += (text.empty() ? "" : " ") + one.server;
    return text;
}

Test(span, a_job_goes_on_with_one_whole_request)
{
    cr_expect_eq(whole({}), "");
    cr_expect_eq(whole({grant("a", 2), grant("b", 2)}), "a", "without a span each is one");
    cr_expect_eq(whole({grant("a", 2, "x", 3), grant("b", 1, "x", 3)}), "a b");
    cr_expect_eq(whole({grant("a", 2, "x", 3), grant("b", 2, "y", 3), grant("c", 1, "y", 3)}),
                 "b c", "of one before it a part is left");
    cr_expect_eq(whole({grant("a", 2, "x", 3), grant("b", 2, "y", 3)}), "", "of none all");
    cr_expect_eq(whole({grant("a", 1, "y", 3), grant("b", 3, "x", 3)}), "b",
                 "a span may be on one server");
}
