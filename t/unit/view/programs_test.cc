// SPDX-License-Identifier: Apache-2.0
#include "view/programs.h"

#include <criterion/criterion.h>

using namespace rgpu::view;

Test(programs, stand_last_in_the_search_path_and_once)
{
    cr_assert_eq(search_path("/usr/bin:/bin", "/x/smi"), "/usr/bin:/bin:/x/smi");
    cr_assert_eq(search_path("/usr/bin:/x/smi:/bin", "/x/smi"), "/usr/bin:/x/smi:/bin");
    cr_assert_eq(search_path("/x/smi2", "/x/smi"), "/x/smi2:/x/smi");
    cr_assert_eq(search_path("", "/x/smi"), "/bin:/usr/bin:/x/smi");
    cr_assert_eq(search_path("/bin", ""), "/bin");
}

Test(programs, that_are_not_there_have_no_directory)
{
    cr_assert_eq(programs_dir("/nowhere/a"), "");
}
