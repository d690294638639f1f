// SPDX-License-Identifier: Apache-2.0
#include "view/nccl.h"

#include <sys/stat.h>

#include <cstdlib>
#include <fstream>

#include <criterion/criterion.h>

using namespace rgpu::view;

namespace {

std::string folder()
{
    char path[] = "/tmp/rgpu-nccl-test.XXXXXX";
    const std::string made = mkdtemp(path);
    mkdir((made + "/nccl").c_str(), 0700);
    std::ofstream(made + kNcclLibrary) << "x";
    return made;
}

Gpu gpu(bool nccl) { return {"GPU-1", "a", "0000:00:01.0", "one", nccl}; }

}  // namespace

Test(nccl, is_there_for_several_gpus_or_tasks)
{
    const std::string at = folder(), library = at + kNcclLibrary;
    const std::vector<Gpu> one{gpu(true)}, two{gpu(true), gpu(true)}, half{gpu(true), gpu(false)};
    cr_assert_eq(nccl_preload("", two, false, "", at), library);
    cr_assert_eq(nccl_preload("", one, true, "", at), library);
    cr_assert_eq(nccl_preload("", one, false, "", at), "");
    cr_assert_eq(nccl_preload("", one, false, "1", at), library);
    cr_assert_eq(nccl_preload("", two, true, "0", at), "");
    cr_assert_eq(nccl_preload("", half, true, "1", at), "", "a server without NCCL");
    cr_assert_eq(nccl_preload("", {}, true, "1", at), "");
    cr_assert_eq(nccl_preload("x", two, false, "", at + "/none"), "x", "it is not installed");
}

Test(nccl, stands_in_front_once)
{
    const std::string at = folder(), library = at + kNcclLibrary;
    const std::vector<Gpu> two{gpu(true), gpu(true)};
    cr_assert_eq(nccl_preload("a.so b.so", two, false, "", at), library + ":a.so b.so");
    cr_assert_eq(nccl_preload("a.so " + library, two, false, "", at), "a.so " + library);
}
