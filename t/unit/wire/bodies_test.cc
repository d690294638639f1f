// SPDX-License-Identifier: Apache-2.0
// Bodies that both sides have in common: the bytes are what they were in every release, and what
// one side writes the other reads.
#include <criterion/criterion.h>

#include <vector>

#include "wire/bodies.h"

using namespace rgpu;
using namespace rgpu::wire;

namespace {

using Bytes = std::vector<uint8_t>;

// The words of a body, which is nothing else.
std::vector<uint32_t> words(const Bytes &body)
{
    std::vector<uint32_t> w(body.size() / sizeof(uint32_t));
    cr_assert_eq(w.size() * sizeof(uint32_t), body.size());
    memcpy(w.data(), body.data(), body.size());
    return w;
}
template <class T> std::vector<uint32_t> words_of(const T &value)
{
    Bytes body;
    Writer(body).value(value);
    return words(body);
}
void expect_words(const std::vector<uint32_t> &got, const std::vector<uint32_t> &wanted)
{
    cr_assert_eq(got.size(), wanted.size(), "%zu words", got.size());
    for (size_t i = 0; i < got.size(); i++) cr_expect_eq(got[i], wanted[i], "word %zu", i);
}

// What CUlaunchConfig and the kernel nodes' parameters have in common.
struct Driver {
    unsigned gridDimX = 1, gridDimY = 2, gridDimZ = 3, blockDimX = 4, blockDimY = 5, blockDimZ = 6,
             sharedMemBytes = 7;
};

HostFunction read_back(const Bytes &body, bool whole = true)
{
    Reader r(body.data(), body.size());
    const auto f = HostFunction::read(r);
    cr_expect_eq(r.at_end(), whole);
    return f;
}

}  // namespace

Test(bodies, heads_of_launches_are_words_in_order)
{
    const auto shape = LaunchGrid::of(Driver());
    expect_words(words_of(LaunchHead{20, shape, 21, 1, 9}), {20, 1, 2, 3, 4, 5, 6, 7, 21, 1, 9});
    expect_words(words_of(AskedLaunchHead{shape, 21}), {1, 2, 3, 4, 5, 6, 7, 21});
    expect_words(words_of(KernelNodeHead{20, 22, 23, shape}), {20, 22, 23, 1, 2, 3, 4, 5, 6, 7});
}

Test(bodies, shape_returns_to_the_drivers_names)
{
    Driver d{0, 0, 0, 0, 0, 0, 0};
    LaunchGrid::of(Driver()).put_into(d);
    expect_words(words_of(d), {1, 2, 3, 4, 5, 6, 7});
}

Test(bodies, copy_target_has_no_gap_and_is_read_back)
{
    Bytes body;
    Writer w(body);
    CopyTarget{0x1122334455667788, 0x99aabbccddeeff00, 21}.write(w);
    cr_assert_eq(body.size(), CopyTarget::kBytes);
    expect_words(words(body), {0x55667788, 0x11223344, 0xddeeff00, 0x99aabbcc, 21});
    Reader r(body.data(), body.size());
    const auto t = CopyTarget::read(r);
    cr_expect(r.at_end());
    cr_expect_eq(t.device, 0x1122334455667788);
    cr_expect_eq(t.bytes, 0x99aabbccddeeff00);
    cr_expect_eq(t.stream, 21);
}

Test(bodies, copy_target_that_is_cut_is_not_ok)
{
    const Bytes body(CopyTarget::kBytes - 1, 0xff);
    Reader r(body.data(), body.size());
    CopyTarget::read(r);
    cr_expect_not(r.ok());
}

Test(bodies, host_function_names_a_stream_unless_it_is_done)
{
    using enum HostFunctionStep;
    for (const auto step : {enqueue, capture}) {
        Bytes body;
        Writer w(body);
        HostFunction{step, 21, 0x200000001}.write(w);
        expect_words(words(body), {static_cast<uint32_t>(step), 21, 1, 2});
        const auto f = read_back(body);
        cr_expect(f.step == step && f.stream == 21 && f.token == 0x200000001);
        body.pop_back();
        read_back(body, false);
    }
    Bytes body;
    Writer w(body);
    HostFunction{done, 0, 0x200000001}.write(w);
    expect_words(words(body), {1, 1, 2});
    const auto f = read_back(body);
    cr_expect(f.step == done && f.stream == 0 && f.token == 0x200000001);
}
