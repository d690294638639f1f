// SPDX-License-Identifier: Apache-2.0
// Which GPUs each task of a step sees.
#include <criterion/criterion.h>

#include "plugin/spank/bind.h"

using namespace rgpu;
using namespace rgpu::plugin;

static std::vector<unsigned> of(const char *text, unsigned task)
{
    auto bind = parse_bind(text);
    cr_assert(bind, "%s", bind ? "" : bind.error().text.c_str());
    auto gpus = gpus_of_task(*bind, {2, 5}, task);
    cr_assert(gpus);
    return *gpus;
}

Test(bind, gives_tasks_gpus_of_their_step)
{
    using List = std::vector<unsigned>;
    cr_expect(of("none", 1) == (List{2, 5}) && of("closest", 3) == (List{2, 5}));
    cr_expect(of("single", 0) == List{2} && of("single", 1) == List{5} &&
              of("single", 2) == List{2});
    cr_expect(of("single:2", 1) == List{2} && of("single:2", 2) == List{5} &&
              of("single:2", 4) == List{2});
    cr_expect(of("map:1", 7) == List{5} && of("map:1,0", 0) == List{5} &&
              of("map:1,0", 3) == List{2});
    auto far = gpus_of_task(*parse_bind("map:0,2"), {2, 5}, 1);
    cr_expect(!far && far.error().text.find("task 1 GPU 2") != std::string::npos);
}

Test(bind, refuses_what_it_does_not_know)
{
    for (const char *text :
         {"", "all", "single:", "single:0", "single:-1", "single:x", "map", "map:", "map:,",
          "map:0,", "map:-1", "none:1", "map:99999999999999999999"})
        cr_expect(!parse_bind(text), "'%s' was taken", text);
    for (const char *text : {"", "0", "-1", "x", "1x"})
        cr_expect(!parse_per_step(text), "'%s' was taken", text);
    cr_expect(*parse_per_step("2") == 2);
}
