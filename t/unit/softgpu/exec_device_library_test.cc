// SPDX-License-Identifier: Apache-2.0
// Device printf (against the host's), malloc and free, clocks.
#include <climits>
#include <cmath>
#include <limits>
#include <map>

#include "exec_support.h"
#include "softgpu/exec/printf.h"

using namespace exec_test;
using rgpu::softgpu::exec::format_device;

namespace {

// Packs arguments as CUDA's ABI does.
struct Packed {
    std::vector<uint8_t> bytes;

    template <class T> void add(T value)
    {
        bytes.resize((bytes.size() + sizeof(T) - 1) / sizeof(T) * sizeof(T));
        auto *raw = reinterpret_cast<const uint8_t *>(&value);
        bytes.insert(bytes.end(), raw, raw + sizeof(T));
    }
};

// Promoted as C promotes variadic arguments.
template <class T> auto promoted(T v)
{
    if constexpr (std::is_same_v<T, float>)
        return static_cast<double>(v);
    else if constexpr (std::is_integral_v<T> && sizeof(T) < 4)
        return static_cast<int>(v);
    else
        return v;
}

template <class... T> void same_as_host(const char *format, T... values)
{
    Packed packed;
    (packed.add(promoted(values)), ...);
    packed.bytes.resize(packed.bytes.size() + 8);
    // At an address aligned as a thread's local buffer is.
    std::vector<uint64_t> aligned(packed.bytes.size() / 8 + 1);
    memcpy(aligned.data(), packed.bytes.data(), packed.bytes.size());
    char expected[4096];
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat"
#pragma GCC diagnostic ignored "-Wformat-security"
    snprintf(expected, sizeof expected, format, values...);
#pragma GCC diagnostic pop
    std::string out;
    int used = format_device(out, format, aligned.data());
    cr_assert_str_eq(out.c_str(), expected, "%s", format);
    cr_assert_eq(used, static_cast<int>(sizeof...(values)), "%s: %d", format, used);
}

}  // namespace

Test(exec_device_library, prints_as_the_host_does)
{
    same_as_host("plain\n");
    same_as_host("100%%, %%d\n");
    for (const char *f :
         {"%d", "%i",  "%5d", "%-5d|", "%05d", "%+d", "% d",  "%.3d", "%8.3d", "%x",
          "%X", "%#x", "%o",  "%#o",   "%u",   "%hd", "%hhd", "%hu",  "%hhx",  "%c"})
        for (int v : {0, 1, -1, 65, 1000000, INT32_MIN, INT32_MAX}) {
            if (strchr(f, 'c') && v != 65) continue;
            same_as_host(f, v);
        }
    for (const char *f : {"%ld", "%lld", "%lu", "%llu", "%lx", "%llX", "%zu", "%zd", "%td", "%jd",
                          "%20lld", "%#llo"})
        for (long long v : {0LL, -1LL, 123456789012345LL, LLONG_MIN, LLONG_MAX}) same_as_host(f, v);
    double nan = std::nan(""), infinity = std::numeric_limits<double>::infinity();
    for (const char *f : {"%f", "%F", "%e", "%E", "%g", "%G", "%a", "%A", "%.0f", "%.3f", "%10.2f",
                          "%-10.2f|", "%+g", "%08.3f", "%#g", "%.15g", "%lf"})
        for (double v : {0.0, -0.0, 1.0, -1.5, 3.14159265358979, 1e300, 1e-300, 5e-324, nan,
                         infinity, -infinity})
            same_as_host(f, v);
    same_as_host("%f", 1.5f);
    same_as_host("%s and %s", "one", "two");
    same_as_host("[%10s] [%-10s] [%.2s]", "ab", "cd", "efgh");
    same_as_host("%p", reinterpret_cast<void *>(0x1234));
    same_as_host("%p", static_cast<void *>(nullptr));
    same_as_host("%*d|%-*d|%.*f", 6, 42, 6, 43, 2, 1.23456);
    same_as_host("%d %f %d %lld %c %s %u", 1, 2.5, 3, 4LL, 'x', "five", 6u);
    same_as_host("%c%c%d%lld", 'a', 'b', 1, 2LL);
}

Test(exec_device_library, prints_long_texts_and_keeps_what_is_no_conversion)
{
    std::string big(3000, 'y');
    same_as_host("<%s>", big.c_str());
    std::string out;
    cr_assert_eq(format_device(out, "50%, it%", nullptr), 0);
    cr_assert(out.starts_with("50%, it"), "%s", out.c_str());
    out.clear();
    const char *null = nullptr;
    cr_assert_eq(format_device(out, "%s", &null), 1);
    cr_assert_str_eq(out.c_str(), "(null)");
}

Test(exec_device_library, prints_whole_lines_in_each_threads_order)
{
    std::string all;
    launch_ok(*load("print_numbers"),
              {.grid = {8, 1, 1}, .print = [&](std::string_view t) { all += t; }});
    std::map<std::string, int> lines;
    size_t at = 0;
    for (size_t end; (end = all.find('\n', at)) != std::string::npos; at = end + 1)
        ++lines[all.substr(at, end - at)];
    cr_assert_eq(at, all.size());
    cr_assert_eq(lines.size(), 8u * 32);
    for (auto &[line, times] : lines) cr_assert_eq(times, 3, "%s", line.c_str());
}

Test(exec_device_library, hands_much_output_over_while_it_runs)
{
    size_t bytes = 0, calls = 0;
    auto print = [&](std::string_view t) { bytes += t.size(), ++calls; };
    launch_ok(*load("print_much", false), {.grid = {200, 1, 1}, .print = print});
    cr_assert_eq(bytes, 200u * 100 * 43, "%zu", bytes);
    cr_assert_gt(calls, 3u);
}

Test(exec_device_library, a_bad_string_is_a_fault)
{
    std::string all;
    Fault fault =
        launch_fault(*load("print_bad_string"), {.print = [&](std::string_view t) { all += t; }});
    cr_assert_eq(fault.kind, FaultKind::illegal_address);
    cr_assert_eq(all.size(), 0u);
}

Test(exec_device_library, allocates_and_frees)
{
    DeviceHeap heap;
    std::vector<uint32_t *> kept(64 * 5 / 10);
    for (int i = 0; i < 20; ++i) {
        launch_ok(*load("allocate"), {.grid = {5, 1, 1}, .block = {64, 1, 1}, .heap = &heap},
                  kept.data());
        launch_ok(*load("free_kept"), {.block = {32, 1, 1}, .heap = &heap}, kept.data());
    }
    // All of it is free again, and in one piece.
    cr_assert(heap.allocate(DeviceHeap::kDefaultBytes) != nullptr);
}

Test(exec_device_library, the_heap_has_a_limit)
{
    DeviceHeap heap(1 << 20);
    void *p = reinterpret_cast<void *>(1);
    auto kernel = load("allocate_big");
    Shape one{.block = {1, 1, 1}, .heap = &heap};
    launch_ok(*kernel, one, &p, uint64_t{2} << 20);
    cr_assert_null(p);
    launch_ok(*kernel, one, &p, ~uint64_t{0});
    cr_assert_null(p);
    launch_ok(*kernel, one, &p, uint64_t{1} << 20);
    cr_assert(p != nullptr);
    launch_ok(*load("free_wrong"), one, uint64_t{0});
    cr_assert_eq(launch_fault(*load("free_wrong"), one, static_cast<char *>(p) + 16).kind,
                 FaultKind::illegal_address);
    launch_ok(*load("free_wrong"), one, p);
    cr_assert_eq(launch_fault(*load("free_wrong"), one, p).kind, FaultKind::illegal_address);
}

Test(exec_device_library, clocks_go_forward)
{
    uint64_t out[3] = {};
    launch_ok(*load("clocks"), {.block = {1, 1, 1}}, out);
    cr_assert_gt(out[2], out[0]);
    cr_assert_lt(std::abs(static_cast<double>(out[1]) / 1e9 - static_cast<double>(time(nullptr))),
                 10.0);
}
