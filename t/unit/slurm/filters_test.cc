// SPDX-License-Identifier: Apache-2.0
// The options that choose GPUs.
#include <criterion/criterion.h>

#include "slurm/terms/filters.h"

using namespace rgpu;
using namespace rgpu::slurm;

static Result<void> add(std::string_view name, std::string_view value, Filters &out)
{
    for (const FilterOption &option : filter_options())
        if (option.name == name) return add_filter(option, value, out);
    cr_assert_fail("there is no such option");
}

Test(filters, reads_each_option)
{
    Filters f;
    cr_expect(add("rgpu-server", "gpu1,gpu2", f) && f.servers.size() == 2 &&
              f.servers[1] == "gpu2");
    cr_expect(add("rgpu-name", "NVIDIA H100", f) && f.names.size() == 1 &&
              f.names[0] == "NVIDIA H100");
    cr_expect(add("rgpu-uuid", "GPU-1", f) && f.uuids.size() == 1);
    cr_expect(add("rgpu-min-memory", "40G", f) && f.memory == 40ull << 30);
    cr_expect(add("rgpu-min-cc", "8.6", f) && f.compute_capability == 86);
    cr_expect(add("rgpu-min-cuda", "12.4", f) && f.cuda == 12040);
    cr_expect(add("rgpu-min-driver", "570.86.10", f) && f.driver == "570.86.10");
}

Test(filters, refuses_wrong_values_by_the_option)
{
    struct {
        const char *name, *value;
    } cases[] = {{"rgpu-server", ""},       {"rgpu-server", "a,,b"},     {"rgpu-name", "a,"},
                 {"rgpu-uuid", ","},        {"rgpu-min-memory", "x"},    {"rgpu-min-cc", "8"},
                 {"rgpu-min-cc", "8.x"},    {"rgpu-min-cc", "8.-1"},     {"rgpu-min-cc", "8.60"},
                 {"rgpu-min-cuda", ""},     {"rgpu-min-cuda", "12.4.1"}, {"rgpu-min-driver", ""},
                 {"rgpu-min-driver", "new"}};
    for (const auto &c : cases) {
        Filters f;
        auto got = add(c.name, c.value, f);
        cr_assert(!got, "--%s=%s was taken", c.name, c.value);
        cr_expect(got.error().text.starts_with(std::string("--") + c.name), "%s",
                  got.error().text.c_str());
    }
    Filters f;
    std::string many = "a";
    for (int i = 0; i < 1000; ++i) many += ",a";
    cr_expect(!add("rgpu-name", many, f));
    for (const char *name : {"rgpu-name", "rgpu-server", "rgpu-uuid", "rgpu-min-memory"}) {
        cr_expect(!add(name, std::string(100'000, 'x'), f), "--%s", name);
        for (const char *text : {"a\nb", "\x1b[31mred", "\x7f"})
            cr_expect(!add(name, text, f), "--%s", name);
    }
    Filters fresh;
    cr_expect(add("rgpu-name", "Größe", fresh));
}

Test(filters, a_type_is_a_part_of_the_name_whatever_the_case)
{
    cr_expect(name_of_type("nvidia_h100") == "nvidia h100");
    cr_expect(holds("NVIDIA H100 80GB HBM3", "h100") &&
              holds("NVIDIA H100", name_of_type("nvidia_h100")));
    cr_expect(!holds("NVIDIA A100", "h100") && holds("NVIDIA A100", ""));
}
