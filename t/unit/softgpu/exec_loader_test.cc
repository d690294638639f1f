// SPDX-License-Identifier: Apache-2.0
// The loader: every relocation that compilers make, and objects that are damaged.
#include <cmath>

#include "exec_support.h"

using namespace exec_test;

namespace {

void run_relocations(const char *flags)
{
    CompiledKernel k{compile_source(kernels_source(), flags), "relocations", true, 1024};
    uint32_t counter = 41;
    auto loaded = LoadedKernel::load(k, [&](std::string_view name) {
        return name == "g.counter" ? reinterpret_cast<uint64_t>(&counter) : 0;
    });
    cr_assert(loaded.has_value(), "%s: %s", flags, loaded ? "" : loaded.error().text.c_str());
    double out[13] = {};
    out[10] = 0.5, out[11] = 2.0, out[12] = 3.0;
    launch_ok(**loaded, {.block = {1, 1, 1}}, out);
    cr_assert_float_eq(out[0], sinf(0.5f), 1e-12);
    cr_assert_eq(out[1], 8.0);
    cr_assert_eq(out[2], 42.0);
    cr_assert_eq(counter, 42u);
    cr_assert_eq(out[3], 42.0);
    cr_assert_eq(out[4], 15.0 + 't');
    cr_assert_eq(out[5], 0.0);
}

}  // namespace

Test(exec_loader, relocates_what_compilers_make)
{
    run_relocations("");
    run_relocations("-O0");
    run_relocations("-mcmodel=large");
    run_relocations("-fno-plt -ffunction-sections -fdata-sections");
    run_relocations("-fno-pic -mcmodel=large");
    run_relocations("-fvisibility=hidden -fcommon");
}

Test(exec_loader, names_what_nobody_offers)
{
    auto loaded =
        LoadedKernel::load(compiled("relocations"), [](std::string_view) { return uint64_t{0}; });
    cr_assert(!loaded);
    cr_assert_eq(loaded.error().kind, rgpu::ErrorKind::unavailable);
    cr_assert(loaded.error().text.find("g.counter") != std::string::npos, "%s",
              loaded.error().text.c_str());
}

Test(exec_loader, wants_its_entry)
{
    for (auto name : {"", "nothing", "rt_trap", "g.counter", "zeros"}) {
        auto loaded = LoadedKernel::load(compiled(name), resolve);
        cr_assert(!loaded, "%s", name);
        cr_assert_eq(loaded.error().kind, rgpu::ErrorKind::invalid);
    }
}

Test(exec_loader, refuses_every_truncation)
{
    CompiledKernel whole = compiled("rotate");
    size_t step = 1;
    for (size_t n = 0; n < whole.object.size(); n += step) {
        CompiledKernel cut = whole;
        cut.object.resize(n);
        auto loaded = LoadedKernel::load(cut, resolve);
        cr_assert(!loaded, "%zu bytes", n);
    }
}

// A changed byte in code is no business of the loader's; anything else it may refuse or load, but
// never trip over. (Under the sanitizers this looks at every access.)
Test(exec_loader, survives_every_changed_byte)
{
    CompiledKernel whole = compiled("rotate");
    size_t refused = 0;
    for (size_t i = 0; i < whole.object.size(); ++i)
        for (uint8_t flip : {0x01, 0x80, 0xFF}) {
            CompiledKernel bad = whole;
            bad.object[i] ^= flip;
            refused += !LoadedKernel::load(bad, resolve);
        }
    cr_assert_gt(refused, 100u);
}

// No page of a kernel can be written and executed.
Test(exec_loader, keeps_writable_and_executable_apart)
{
    auto kernel = load("rotate");
    std::ifstream maps("/proc/self/maps");
    std::string line;
    int executable = 0;
    while (std::getline(maps, line)) {
        std::string rights = line.substr(line.find(' ') + 1, 4);
        bool w = rights[1] == 'w', x = rights[2] == 'x';
        cr_assert(!(w && x), "%s", line.c_str());
        executable += x;
    }
    cr_assert_gt(executable, 0);
}
