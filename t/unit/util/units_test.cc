// SPDX-License-Identifier: Apache-2.0
#include "util/units.h"

#include <criterion/criterion.h>

using namespace rgpu;
using namespace std::chrono_literals;

Test(units, sizes_are_powers_of_1024)
{
    struct {
        const char *text;
        uint64_t bytes;
    } rows[] = {
        {"0", 0},           {"4096", 4096},      {"1K", 1024},           {"512M", 512ull << 20},
        {"2G", 2ull << 30}, {"2GB", 2ull << 30}, {"1.5GiB", 3ull << 29}, {"1T", 1ull << 40},
        {"10B", 10},
    };
    for (auto &row : rows) {
        auto size = parse_size(row.text);
        cr_assert(size.has_value(), "%s: %s", row.text, size ? "" : size.error().text.c_str());
        cr_assert_eq(*size, row.bytes, "%s", row.text);
    }
}

Test(units, what_is_no_size_is_refused)
{
    for (const char *text : {"", "G", "-1", "2 G", "2X", "1e3", "2Gx", "99999999T", "nan", "inf"})
        cr_assert_not(parse_size(text).has_value(), "%s", text);
}

Test(units, a_size_is_read_back_as_it_was)
{
    for (uint64_t bytes :
         {0ull, 1ull, 1023ull, 1024ull, 1536ull << 20, 2ull << 30, (2ull << 30) + 1})
        cr_assert_eq(*parse_size(format_size(bytes)), bytes, "%s", format_size(bytes).c_str());
    cr_assert_eq(format_size(1536ull << 20), "1536M");
}

Test(units, times_need_a_unit)
{
    cr_assert_eq(*parse_duration("500ms"), 500ms);
    cr_assert_eq(*parse_duration("5s"), 5s);
    cr_assert_eq(*parse_duration("1.5m"), 90s);
    cr_assert_eq(*parse_duration("30m"), 30min);
    cr_assert_eq(*parse_duration("2d"), 48h);
    cr_assert_eq(*parse_duration("0"), 0ms);
    for (const char *text : {"", "5", "s", "-1s", "5 s", "5sec", "1e9d", "0x"})
        cr_assert_not(parse_duration(text).has_value(), "%s", text);
}

Test(units, a_time_is_read_back_as_it_was)
{
    for (auto time : {Milliseconds(0), Milliseconds(1), Milliseconds(1500), Milliseconds(60s),
                      Milliseconds(36h)})
        cr_assert_eq(*parse_duration(format_duration(time)), time);
    cr_assert_eq(format_duration(90s), "90s");
    cr_assert_eq(format_duration(30min), "30m");
}

Test(units, shares_are_fractions_or_percent)
{
    cr_assert_eq(*parse_share("0.5"), 50);
    cr_assert_eq(*parse_share("1"), 100);
    cr_assert_eq(*parse_share("0.29"), 29);
    cr_assert_eq(*parse_share("33%"), 33);
    for (const char *text : {"", "0", "50", "1.01", "0.001", "0.505", "-0.5", "101%", "half"})
        cr_assert_not(parse_share(text).has_value(), "%s", text);
}

Test(units, ranges_of_shares)
{
    struct {
        const char *text;
        int least, most;
    } good[] = {{"0.5", 50, 50},       {"50%", 50, 50},     {"1", 100, 100},   {"0.3-1", 30, 100},
                {"30%-100%", 30, 100}, {"30-100", 30, 100}, {"0-100", 0, 100}, {"0-1", 0, 100},
                {"0%-50%", 0, 50},     {"1-2", 1, 2}};
    for (auto &c : good) {
        auto range = parse_share_range(c.text);
        cr_assert(range.has_value(), "%s", c.text);
        cr_expect(range->least == c.least && range->most == c.most, "%s: %d-%d", c.text,
                  range->least, range->most);
    }
    for (const char *text :
         {"", "-", "-1", "50", "30-", "-30", "100-30", "30-101", "0-0", "1.5-2", "a-b", "10-20-30"})
        cr_expect_not(parse_share_range(text).has_value(), "%s", text);
    cr_expect_eq(share_text(50, 50), "50%");
    cr_expect_eq(share_text(30, 100), "30-100%");
}

Test(units, a_refusal_shows_what_would_be_right)
{
    cr_assert(parse_size("2X").error().text.find("like 2G") != std::string::npos);
    cr_assert(parse_duration("5").error().text.find("like 30s") != std::string::npos);
    cr_assert(parse_share("50").error().text.find("50%") != std::string::npos);
}
