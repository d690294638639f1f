// SPDX-License-Identifier: Apache-2.0
// What a line of the table says of device memory is true: a call that takes some, or that changes
// what is counted, has a case in front of the driver, and no other has.
//
// A call that makes a handle or an address, or whose name says that it makes, loads, opens, runs or
// changes something, must say what it means for memory; the others need not. Nothing is put in
// front of the driver without a cap: the driver's own function and the one that the worker calls
// are compared.
#include <criterion/criterion.h>
#include <fcntl.h>

#include <cstdlib>
#include <filesystem>
#include <regex>

#include "calls/handles.h"
#include "worker/limits/memory_cap.h"

using namespace rgpu;
using namespace rgpu::worker;

namespace {

// Says by itself, whatever it makes, that something is made, brought or changed.
const std::regex kSuspicious(
    "Alloc(?!ation)|Create|Load|Open|Import|Map(?!py)|Instantiate|Launch|Upload|Retain|Attach|"
    "SetLimit|Clone|"
    "Update|Prefetch|Advise|Register|Reserve|AddNode|Add.*Node|SetParams|SetMemPool|Enumerate|"
    "GetGlobal|GetManaged|GetModule$|GetFunction$");

template <class T> constexpr bool kMakes =
    std::is_pointer_v<T> && !std::is_const_v<std::remove_pointer_t<T>> &&
    (calls::kIsHandle<std::remove_pointer_t<T>> || std::is_same_v<T, CUdeviceptr *>);
template <class... A> constexpr bool makes(CUresult (*)(A...)) { return (kMakes<A> || ...); }

struct Line {
    std::string name;
    calls::Memory memory;
    bool carried_out, makes, in_front;
};

template <size_t... I>
std::vector<Line> lines(const Driver &raw, const Driver &capped, std::index_sequence<I...>)
{
    const auto one = [&]<size_t N>() -> Line {
        constexpr auto id = static_cast<CallId>(N);
        using Function = typename calls::Row<id>::Function;
        return {std::string(calls::kCalls[N].symbol), calls::kCalls[N].facts.memory,
                calls::kCalls[N].mode != calls::Mode::none, makes(static_cast<Function>(nullptr)),
                raw.call<id>() != capped.call<id>()};
    };
    return {one.template operator()<I>()...};
}

}  // namespace

Test(memory_calls, each_that_takes_device_memory_has_a_case)
{
    const char *build = getenv("RGPU_BUILD");
    const std::string path = std::string(build ? build : "build") + "/lib/softgpu/libcuda.so.1";
    if (!std::filesystem::exists(path)) cr_skip_test("%s is not built", path.c_str());
    char directory[] = "/tmp/rgpu-calls.XXXXXX";
    cr_assert(mkdtemp(directory));
    setenv("RGPU_SOFTGPU_HOST", directory, 1);
    setenv("RGPU_SOFTGPU_MEMORY", "64M", 1);
    auto raw = Driver::open(path);
    cr_assert(raw.has_value());
    Driver capped = *raw;
    const int account = open(directory, O_TMPFILE | O_RDWR, 0600);
    cr_assert_eq(ftruncate(account, static_cast<off_t>(MemoryAccount::file_bytes(4, 1))), 0);
    serverd::WorkerStart start;
    start.memory = {1000000};
    cr_assert(enforce_memory_cap(capped, account, start).has_value());
    std::filesystem::remove_all(directory);

    int in_front = 0;
    for (const Line &line : lines(*raw, capped, std::make_index_sequence<calls::kCallCount>())) {
        const bool needs_case = line.memory == calls::Memory::taken ||
                                line.memory == calls::Memory::counted;
        in_front += line.in_front;
        cr_expect(line.carried_out || !line.in_front,
                  "%s is not carried out: what is in front of it?", line.name.c_str());
        if (!line.carried_out) continue;
        cr_expect(line.in_front || !needs_case,
                  "%s takes device memory, or changes what is counted, by its line: put a case in "
                  "front of it (src/worker/limits/memory_cap_*.cc)",
                  line.name.c_str());
        cr_expect(!line.in_front || needs_case,
                  "%s has a case in front of it: its line has to say takes_memory or counts_memory",
                  line.name.c_str());
        const bool may_take = line.makes || std::regex_search(line.name, kSuspicious);
        cr_expect(!may_take || line.memory != calls::Memory::unsaid,
                  "%s may take device memory: its line has to say what it means for that "
                  "(src/calls/table.def)",
                  line.name.c_str());
        cr_expect(may_take || needs_case || line.memory == calls::Memory::unsaid,
                  "%s needs no word about memory", line.name.c_str());
    }
    cr_expect_gt(in_front, 60);
}
