// SPDX-License-Identifier: Apache-2.0
// What nodes said of their configuration.
#include <criterion/criterion.h>

#include "rgpud/ports/node_configs.h"

using namespace rgpu::serverd;
using namespace std::chrono_literals;

Test(node_configs, tells_what_each_node_said_last)
{
    NodeConfigs all;
    auto start = NodeConfigs::Clock::now();
    all.heard("cn1", "client:1", start);
    all.heard("cn2", "client:1", start);
    all.heard("cn1", "client:2", start + 3s);
    auto told = all.tell(start + 5s).nodes;
    cr_assert_eq(told.size(), 2);
    cr_expect(told[0].node == "cn1" && told[0].config == "client:2" && told[0].age_ms == 2000);
    cr_expect(told[1].node == "cn2" && told[1].age_ms == 5000);
}

Test(node_configs, takes_nothing_that_is_no_text)
{
    NodeConfigs all;
    all.heard("", "client:1");
    all.heard("cn1", "");
    all.heard("cn1", "a\nb");
    all.heard("cn\x7f", "a");
    all.heard("cn1", std::string(256, 'a'));
    all.heard(std::string(256, 'a'), "a");
    cr_expect(all.tell().nodes.empty());
}

Test(node_configs, is_bounded)
{
    NodeConfigs all;
    auto start = NodeConfigs::Clock::now();
    for (size_t n = 0; n < NodeConfigs::kMost; ++n)
        all.heard("cn" + std::to_string(n), "a", start + std::chrono::seconds(n));
    all.heard("cn0", "b", start + 100000s);
    all.heard("new", "a", start + 100001s);
    auto told = all.tell(start + 100001s).nodes;
    cr_assert_eq(told.size(), NodeConfigs::kMost);
    auto has = [&](const char *name) {
        return std::any_of(told.begin(), told.end(), [&](const auto &n) { return n.node == name; });
    };
    cr_expect(has("cn0") && has("new") && !has("cn1"), "the oldest made room");
}
