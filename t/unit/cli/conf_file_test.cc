// SPDX-License-Identifier: Apache-2.0
// rgpu.conf with pins written into it: all else stays as it stands.
#include <criterion/criterion.h>

#include "cli/parts/conf_file.h"

using namespace rgpu;
using namespace rgpu::cli;

namespace {

const std::string kOld = "sha256//" + std::string(43, 'A') + "=";
const std::string kNew = "sha256//" + std::string(43, 'B') + "=";

Result<std::string> changed(const std::string &text, const std::vector<ConfPin> &pins)
{
    Result<Config> read = parse_config(text, "test.conf");
    if (!read) return std::move(read).error();
    return with_pins(text, *read, pins);
}

void same(const Result<std::string> &got, const std::string &wanted)
{
    cr_assert(got.has_value(), "%s", got ? "" : got.error().text.c_str());
    cr_assert(*got == wanted, "%s", got->c_str());
}

}  // namespace

Test(conf_file, pins_stand_below_the_names)
{
    const std::string text = "# the pool\n[[server]]\nname = \"a\"  # first\naddress = \"a:1\"\n\n"
                             "[[server]]\n  address = \"b:1\"\n  name = \"b\"\n\n[client]\n";
    same(
        changed(text, {{"b", kNew}, {"a", kOld}}),
        "# the pool\n[[server]]\nname = \"a\"  # first\npin = \"" + kOld +
            "\"\naddress = \"a:1\"\n\n[[server]]\n  address = \"b:1\"\n  name = \"b\"\n  pin = \"" +
            kNew + "\"\n\n[client]\n");
}

Test(conf_file, a_pin_that_is_there_is_replaced)
{
    const std::string begin = "[[server]]\nname = \"a\"\naddress = \"a:1\"\npin = \"",
                      end = "\"\n# behind\n";
    same(changed(begin + kOld + end, {{"a", kNew}}), begin + kNew + end);
}

Test(conf_file, a_file_written_otherwise_is_left_alone)
{
    const auto got = changed("server = [{name = \"a\", address = \"a:1\"}]\n", {{"a", kNew}});
    cr_assert(!got);
    cr_assert(got.error().text.find("add pin = \"" + kNew + "\"") != std::string::npos, "%s",
              got.error().text.c_str());
}
