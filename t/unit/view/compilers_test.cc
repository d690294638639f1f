// SPDX-License-Identifier: Apache-2.0
#include "view/compilers.h"

#include <criterion/criterion.h>

#include <map>

using namespace rgpu::view;

namespace {

const Gpu kSoftware{"GPU-1", "rgpu software GPU", {}}, kReal{"GPU-2", "NVIDIA H100", {}};

std::map<std::string, std::string> set(const std::vector<Gpu> &gpus,
                                       std::map<std::string, std::string> present = {})
{
    const auto all = compiler_variables(gpus, "/x/ptx", [&](const char *n) { return present[n]; });
    return {all.begin(), all.end()};
}

}  // namespace

Test(compilers, are_told_of_software_gpus_only)
{
    cr_assert(set({kReal}).empty());
    cr_assert(set({kSoftware, kReal}).empty());
    cr_assert(set({}).empty());
    auto variables = set({kSoftware, kSoftware});
    cr_assert_eq(variables["CUDA_ROOT"], "/x/ptx");
    cr_assert_eq(variables["TRITON_PTXAS_PATH"], "/x/ptx/bin/ptxas");
    cr_assert(variables["XLA_FLAGS"].ends_with("--xla_gpu_cuda_data_dir=/x/ptx"));
    cr_assert(compiler_variables({kSoftware}, "", [](const char *) { return ""; }).empty());
}

Test(compilers, keep_what_the_job_says)
{
    auto variables = set({kSoftware}, {{"XLA_FLAGS", "--a=1"}, {"CUDA_ROOT", "/c"}});
    cr_assert(variables["XLA_FLAGS"].starts_with("--a=1 --xla_gpu"));
    cr_assert(!variables.contains("CUDA_ROOT"));
    cr_assert(
        !set({kSoftware}, {{"XLA_FLAGS", "--xla_gpu_cuda_data_dir=/c"}}).contains("XLA_FLAGS"));
    // A nested job has them already.
    cr_assert(!set({kSoftware}, {{"XLA_FLAGS", variables["XLA_FLAGS"]}}).contains("XLA_FLAGS"));
}

Test(compilers, of_the_node_are_not_those_of_a_container)
{
    auto node = set({kSoftware}, {{"XLA_FLAGS", "--a=1 --b"}});
    cr_assert_eq(without_toolkit(node["XLA_FLAGS"], "/x/ptx"), "--a=1 --b");
    cr_assert_eq(without_toolkit(set({kSoftware})["XLA_FLAGS"], "/x/ptx"), "");
    for (const char *name : {"CUDA_ROOT", "TRITON_PTXAS_PATH", "TRITON_PTXAS_BLACKWELL_PATH"})
        cr_assert_eq(without_toolkit(node[name], "/x/ptx"), "", "%s", name);
    for (const char *mine : {"", "/x/ptxas", "--a --xla_gpu_cuda_data_dir=/c", "/y/x/ptx"})
        cr_assert_eq(without_toolkit(mine, "/x/ptx"), mine, "%s", mine);
    cr_assert_eq(without_toolkit(node["XLA_FLAGS"], ""), node["XLA_FLAGS"]);
}

Test(compilers, without_the_stand_in_have_no_toolkit) { cr_assert_eq(toolkit_dir("/no/a"), ""); }
