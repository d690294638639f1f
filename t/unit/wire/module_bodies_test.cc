// SPDX-License-Identifier: Apache-2.0
// Bodies of modules: the bytes are what they were in every release, and what one side writes the
// other reads.
#include <criterion/criterion.h>

#include <vector>

#include "wire/jit_bodies.h"
#include "wire/module_bodies.h"

using namespace rgpu;
using namespace rgpu::wire;

namespace {

using Bytes = std::vector<uint8_t>;

template <class T> Bytes written(const T &value)
{
    Bytes body;
    Writer w(body);
    value.write(w);
    return body;
}
void expect_bytes(const Bytes &got, const Bytes &wanted)
{
    cr_assert_eq(got.size(), wanted.size(), "%zu bytes", got.size());
    for (size_t i = 0; i < got.size(); i++) cr_expect_eq(got[i], wanted[i], "byte %zu", i);
}
template <class T> T read_back(const Bytes &body)
{
    Reader r(body.data(), body.size());
    T value = T::read(r);
    cr_expect(r.at_end());
    for (size_t n = 0; n < body.size(); n++) {
        Reader cut(body.data(), n);
        T::read(cut);
        cr_expect_not(cut.ok(), "%zu bytes", n);
    }
    return value;
}

}  // namespace

Test(module_bodies, load_is_a_number_a_flag_and_the_parts_lengths)
{
    const auto body = written(LoadHead{21, ImageWrapping::objects, {3, 0x100000004}});
    expect_bytes(body,
                 {21, 0, 0, 0, 1, 2, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 1, 0, 0, 0});
    Reader r(body.data(), body.size());
    const auto h = LoadHead::read(r);
    cr_assert(h && r.at_end());
    cr_expect(h->made == 21 && h->wrapping == ImageWrapping::objects && h->parts.size() == 2 &&
              h->parts[1] == 0x100000004);
}

Test(module_bodies, load_says_what_is_wrong_with_its_parts)
{
    const auto problem = [](Bytes body) {
        Reader r(body.data(), body.size());
        const auto h = LoadHead::read(r);
        return h ? "" : h.error().text;
    };
    auto body = written(LoadHead{21, ImageWrapping::none, {3, 4}});
    for (size_t n = 9; n < body.size(); n++)
        cr_expect_eq(problem({body.begin(), body.begin() + static_cast<ptrdiff_t>(n)}),
                     "its parts do not fit its body");
    cr_expect_eq(problem(written(LoadHead{21, ImageWrapping::none, {}})), "0 parts");
    body[4] = 3;
    cr_expect_eq(problem(body), "wrapping 3");
    body[4] = 2;
    cr_expect_eq(problem(body), "");
    body[5] = 0xff, body[6] = 0xff, body[7] = 0xff, body[8] = 0xff;
    cr_expect_eq(problem(body), "4294967295 parts");
}

Test(module_bodies, function_is_its_name_and_parameters)
{
    const auto body = written(FunctionText{"ab", {{0, 8}, {8, 4}}});
    expect_bytes(body, {2, 0, 0, 0, 'a', 'b', 2, 0, 0, 0, 0, 0, 0, 0, 0,
                        0, 0, 0, 8, 0,   0,   0, 8, 0, 0, 0, 4, 0, 0, 0});
    const auto text = read_back<FunctionText>(body);
    cr_expect(text.name == "ab" && text.parameters.size() == 2);
    cr_expect(text.parameters[1].offset == 8 && text.parameters[1].bytes == 4);
}

Test(module_bodies, function_that_lies_about_its_parameters_has_none)
{
    auto body = written(FunctionText{"a", {{0, 8}}});
    memset(body.data() + 5, 0xff, 8);
    Reader r(body.data(), body.size());
    cr_expect(FunctionText::read(r).parameters.empty());
    cr_expect_not(r.ok());
}

Test(module_bodies, look_ups_are_numbers_and_a_name)
{
    const auto body = written(FunctionLookUp{21, 22, "f"});
    expect_bytes(body, {21, 0, 0, 0, 22, 0, 0, 0, 1, 0, 0, 0, 'f'});
    const auto asked = read_back<FunctionLookUp>(body);
    cr_expect(asked.found == 21 && asked.owner == 22 && asked.name == "f");

    const auto variable = written(VariableLookUp{22, "v"});
    expect_bytes(variable, {22, 0, 0, 0, 1, 0, 0, 0, 'v'});
    cr_expect_eq(read_back<VariableLookUp>(variable).name, "v");

    Bytes list;
    Writer(list).value(FunctionList{22, 7});
    expect_bytes(list, {22, 0, 0, 0, 7, 0, 0, 0});
}

Test(module_bodies, variable_is_where_it_lies_and_whether_it_is_managed)
{
    const auto body = written(Variable{0x1000, 8, true});
    expect_bytes(body, {0, 0x10, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 1});
    const auto v = read_back<Variable>(body);
    cr_expect(v.address == 0x1000 && v.bytes == 8 && v.managed);
}

Test(jit_bodies, options_are_a_count_and_pairs)
{
    const auto body = written(JitOptionList{{{7, 3}, {9, 0x100000002}}});
    expect_bytes(
        body, {2, 0, 0, 0, 7, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0});
    Reader r(body.data(), body.size());
    const auto list = JitOptionList::read(r);
    cr_assert(list && r.at_end() && list->options.size() == 2);
    cr_expect(list->options[1].option == 9 && list->options[1].value == 0x100000002);
}

Test(jit_bodies, more_options_than_there_are_is_an_error)
{
    const Bytes body{65, 0, 0, 0};
    Reader r(body.data(), body.size());
    const auto list = JitOptionList::read(r);
    cr_assert_not(list);
    cr_expect_str_eq(list.error().text.c_str(), "65 options");
}

Test(jit_bodies, logs_and_an_input_come_back_as_they_were)
{
    const auto logs = written(JitLogs{"i", ""});
    expect_bytes(logs, {1, 0, 0, 0, 'i', 0, 0, 0, 0});
    const auto read = read_back<JitLogs>(logs);
    cr_expect(read.info == "i" && read.errors.empty());
    const auto in = read_back<LinkInput>(written(LinkInput{21, 4, "a.o"}));
    cr_expect(in.state == 21 && in.type == 4 && in.name == "a.o");
}
