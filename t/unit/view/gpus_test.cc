// SPDX-License-Identifier: Apache-2.0
#include "view/gpus.h"

#include <criterion/criterion.h>

#include <cstdlib>
#include <fstream>
#include <unistd.h>

#include "util/pci_address.h"

using namespace rgpu;

static Result<std::vector<view::Gpu>> read(const std::string &text)
{
    char path[] = "/tmp/rgpu-gpus_test.XXXXXX";
    close(mkstemp(path));
    std::ofstream(path) << text;
    auto gpus = view::read_gpus(path);
    unlink(path);
    return gpus;
}

Test(gpus, are_those_of_all_servers_in_order)
{
    auto gpus =
        read(R"({"servers": [{"name": "a", "gpus": [{"index": 1, "uuid": "U", "name": "N"}]},
                        {"name": "b", "gpus": [{"index": 0, "uuid": "V", "name": "M"}]}]})");
    cr_assert(gpus);
    cr_assert_eq(gpus->size(), 2u);
    cr_assert_eq((*gpus)[0].uuid, "U");
    cr_assert_eq((*gpus)[1].name, "M");
    cr_assert_eq((*gpus)[0].pci, pci_addresses({{"a", 1}, {"b", 0}})[0]);
    cr_assert(is_leased_address((*gpus)[0].pci));
}

Test(gpus, have_printable_names_only)
{
    auto gpus = read(R"({"servers": [{"gpus": [{"name": "a\nb\u0007é)" + std::string(200, 'x') +
                     R"("}]}]})");
    cr_assert(gpus);
    const std::string &name = (*gpus)[0].name;
    cr_assert_eq(name.size(), 95u);
    for (char c : name) cr_assert(c >= ' ' && c <= '~');
}

Test(gpus, are_at_least_one_and_not_too_many)
{
    cr_assert(!read("{}"));
    cr_assert(!read(R"({"servers": [{"gpus": []}]})"));
    std::string many = "{}";
    for (size_t i = 0; i < view::kMostGpus; i++) many += ",{}";
    cr_assert(!read(R"({"servers": [{"gpus": [)" + many + "]}]}"));
}

Test(gpus, of_what_is_no_lease_file_are_an_error)
{
    cr_assert(!read("{"));
    cr_assert(!view::read_gpus("/dev/null"));
    cr_assert(!view::read_gpus("/nowhere/lease.json"));
    cr_assert(!read(std::string((1 << 20) + 1, ' ')));
}

Test(gpus, are_told_to_scripts_by_number_uuids_and_servers)
{
    const view::Variables said = view::gpu_variables(
        {{"GPU-b", "N", "", "s2"}, {"GPU-a", "N", "", "s1"}, {"GPU-c", "N", "", "s2"}});
    const view::Variables wanted = {
        {"RGPU_GPUS", "3"}, {"RGPU_GPU_UUIDS", "GPU-b,GPU-a,GPU-c"}, {"RGPU_SERVERS", "s2,s1"}};
    cr_assert(said == wanted);
}
