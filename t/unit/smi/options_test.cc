// SPDX-License-Identifier: Apache-2.0
#include "smi/options.h"

#include <criterion/criterion.h>

using namespace rgpu;
using namespace rgpu::smi;

static Result<Options> parsed(std::vector<std::string> words)
{
    std::vector<char *> arguments = {const_cast<char *>("nvidia-smi")};
    for (std::string &word : words) arguments.push_back(word.data());
    return parse(static_cast<int>(arguments.size()), arguments.data());
}

Test(options, without_any_make_the_table) { cr_assert_eq(parsed({})->verb, Options::table); }

Test(options, take_values_behind_a_blank_or_an_equals_sign)
{
    for (const auto &words :
         {std::vector<std::string>{"-i", "1"}, {"-i=1"}, {"--id=1"}, {"--id", "1"}})
        cr_assert_eq(parsed(words)->devices, "1");
}

Test(options, of_a_query_are_fields_and_a_format)
{
    auto o = parsed({"--query-gpu=name, memory.total", "--format=csv,noheader,nounits"});
    cr_assert(o);
    cr_assert_eq(o->verb, Options::query_gpu);
    cr_assert_eq(o->fields.size(), 2u);
    cr_assert_eq(o->fields[1], "memory.total");
    cr_assert(!o->header && !o->units);
    cr_assert(!parsed({"--query-gpu=name"}));
    cr_assert(!parsed({"--query-gpu=name", "--format=noheader"}));
    cr_assert(!parsed({"--query-gpu=name", "--format=csv,tsv"}));
}

Test(options, loop_each_five_seconds_where_no_time_is_given)
{
    cr_assert_eq(*parsed({"-l"})->loop_ms, 5000u);
    cr_assert_eq(*parsed({"-l", "2"})->loop_ms, 2000u);
    cr_assert_eq(*parsed({"-lms", "250"})->loop_ms, 250u);
    cr_assert(!parsed({"-l", "0"}));
    cr_assert(!parsed({"-l", "x"}));
}

Test(options, that_are_wrong_are_named)
{
    cr_assert(!parsed({"--nonsense"}));
    cr_assert(!parsed({"-d", "MEMORY"}));
    cr_assert(!parsed({"-i"}));
    cr_assert_eq(parsed({"-pm", "1"})->verb, Options::modify);
}
