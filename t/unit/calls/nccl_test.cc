// SPDX-License-Identifier: Apache-2.0
#include "calls/nccl.h"

#include <criterion/criterion.h>

#include <set>
#include <string>

using namespace rgpu::calls;

Test(nccl, finds_every_function_and_no_other)
{
    for (size_t i = 0; i < nccl_count(); i++) cr_assert_eq(find_nccl(nccl_at(i).name), &nccl_at(i));
    for (const char *name : {"", "nccl", "ncclAllReduce2", "ncclAllReduc", "zzz", "aaa"})
        cr_assert_null(find_nccl(name));
    cr_assert_geq(nccl_count(), 64u);
}

Test(nccl, parameters_are_letters_that_both_sides_know)
{
    const std::string known = "ceNAipztoOxsSdDbaqrGBwHhuYUlkfvIVL";
    for (size_t i = 0; i < nccl_count(); i++) {
        const NcclFunction &f = nccl_at(i);
        cr_assert_leq(f.parameters.size(), kMostNcclParameters);
        for (char letter : f.parameters) cr_assert_neq(known.find(letter), std::string::npos);
        const bool carried = f.way == NcclWay::grouped || f.way == NcclWay::once;
        cr_assert_eq(carried, !f.parameters.empty(), "%s", f.name.data());
        // What a letter's meaning needs stands beside it.
        for (char letter : std::string("sSdDbaqrG"))
            if (f.has(letter))
                cr_assert(f.has('z') && f.has('t') && f.has('c'), "%s", f.name.data());
        for (char letter : std::string("aqrG"))
            if (f.has(letter)) cr_assert(f.has('p'), "%s", f.name.data());
        for (char letter : std::string("lUA"))
            if (f.has(letter)) cr_assert(f.has('k'), "%s", f.name.data());
        if (f.has('B')) cr_assert(f.has('w'));
        if (f.has('f')) cr_assert(f.has('N'), "a config's texts stay with what it makes");
    }
}

Test(nccl, knows_how_large_types_are)
{
    cr_assert_eq(nccl_type_bytes(-1), 0u);
    cr_assert_eq(nccl_type_bytes(12), 0u);
    size_t all = 0;
    for (int t = 0; t < 12; t++) all += nccl_type_bytes(t);
    cr_assert_eq(all, 1u + 1 + 4 + 4 + 8 + 8 + 2 + 4 + 8 + 2 + 1 + 1);
}

Test(nccl, takes_variables_that_name_no_files)
{
    for (const char *name : {"NCCL_DEBUG", "NCCL_ALGO", "NCCL_PROTO", "NCCL_MAX_NCHANNELS"})
        cr_assert(nccl_variable(name), "%s", name);
    for (const char *name :
         {"NCCL_DEBUG_FILE", "NCCL_SOCKET_IFNAME", "NCCL_NET_PLUGIN", "NCCL_TUNER_PLUGIN",
          "NCCL_TOPO_FILE", "NCCL_COMM_ID", "NCCL_CONF_FILE", "NCCL_IB_HCA", "LD_PRELOAD", "NCCL_"})
        cr_assert(!nccl_variable(name), "%s", name);
    cr_assert(nccl_value("Ring,Tree"));
    cr_assert(nccl_value(""));
    cr_assert(!nccl_value("/etc/passwd"));
    cr_assert(!nccl_value("a\nb"));
    cr_assert(!nccl_value(std::string(257, 'a')));
}
