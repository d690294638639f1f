// SPDX-License-Identifier: Apache-2.0
#include "util/pci_address.h"

#include <criterion/criterion.h>

#include <set>

using namespace rgpu;

Test(pci_address, is_the_same_in_every_lease)
{
    const auto one = pci_addresses({{"gpu1", 3}});
    const auto two = pci_addresses({{"gpu1", 0}, {"gpu1", 3}});
    cr_assert_eq(one[0], two[1]);
    cr_assert_eq(one[0].substr(5), "04:00.0");
}

Test(pci_address, differs_between_servers_and_gpus)
{
    const auto all = pci_addresses({{"gpu1", 0}, {"gpu1", 1}, {"gpu2", 0}, {"gpu2", 1}});
    cr_assert_eq(std::set(all.begin(), all.end()).size(), 4u);
    cr_assert_eq(all[0].substr(0, 4), all[1].substr(0, 4));
    cr_assert_neq(all[0].substr(0, 4), all[2].substr(0, 4));
}

Test(pci_address, is_never_given_twice_in_a_lease)
{
    std::vector<ServerGpu> same(300, {"gpu1", 0}), unknown(300, {"gpu1", -1});
    for (const auto &gpus : {same, unknown}) {
        const auto all = pci_addresses(gpus);
        cr_assert_eq(std::set(all.begin(), all.end()).size(), gpus.size());
        for (const std::string &address : all) {
            cr_assert_eq(address.size(), 12u);
            cr_assert(is_leased_address(address));
        }
    }
}

Test(pci_address, of_the_node_is_none_of_ours)
{
    cr_assert(!is_leased_address("0000:3b:00.0"));
    cr_assert(!is_leased_address("70000:01:00.0"));
    cr_assert(!is_leased_address("7"));
    cr_assert(is_leased_address("7abc:01"));
}
