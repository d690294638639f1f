// SPDX-License-Identifier: Apache-2.0
// The arguments in plugstack.conf, and the variables that come of them.
#include <criterion/criterion.h>

#include "plugin/spank/settings.h"

using namespace rgpu;
using namespace rgpu::plugin;

static Result<Settings> parsed(std::vector<std::string> arguments)
{
    std::vector<char *> argv;
    for (std::string &a : arguments) argv.push_back(a.data());
    return parse_settings(static_cast<int>(argv.size()), argv.data());
}

Test(settings, reads_every_argument)
{
    auto settings = parsed({"rundir=/r", "interposer=/i", "libpath=/a:/b", "rgpu=/bin/rgpu"});
    cr_assert(settings);
    cr_expect(settings->rundir == "/r" && settings->interposer == "/i" &&
              settings->libpath == "/a:/b" && settings->rgpu == "/bin/rgpu");
    auto none = parsed({});
    cr_assert(none);
    cr_expect(none->rundir == "/run/rgpu");
}

Test(settings, names_an_argument_it_does_not_know)
{
    for (const char *argument : {"rundirs=/r", "rundir", "=x", ""}) {
        auto settings = parsed({argument});
        cr_assert(!settings);
        cr_expect(settings.error().text.find(std::string("'") + argument + "'") !=
                  std::string::npos);
    }
}

Test(settings, puts_the_interposer_in_front)
{
    auto settings = parsed({"interposer=/i", "libpath=/cuda"});
    cr_assert(settings);
    cr_expect(library_path(*settings, "") == "/i:/cuda");
    cr_expect(library_path(*settings, "/x:/y") == "/i:/cuda:/x:/y");
}

Test(settings, does_not_grow_the_path_in_nested_steps)
{
    auto settings = parsed({"interposer=/i"});
    cr_assert(settings);
    cr_expect(library_path(*settings, "/i:/x") == "/i:/x");
    cr_expect(library_path(*settings, "/i") == "/i");
    cr_expect(library_path(*settings, "/ii:/x") == "/i:/ii:/x");
}
