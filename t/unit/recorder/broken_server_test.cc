// SPDX-License-Identifier: Apache-2.0
// What a broken server sends in the place of a copy's bytes, and what it sends unasked: the client
// writes nothing where it should not, says success only for a whole copy, and ends the connection
// or goes on.
#include <criterion/criterion.h>
#include <unistd.h>

#include <atomic>

#include "interpose/stream/callback.h"
#include "t/unit/recorder/support.h"

using namespace rgpu;
using namespace rgpu::test;

namespace {

constexpr unsigned kLimit = 120;  // seconds: a test that hangs ends here
constexpr size_t kBytes = 100, kGuard = 4096;
using wire::ServerFrame;

Frame frame(ServerFrame type, uint16_t flags, uint32_t sequence, CUresult result, const Bytes &body)
{
    Frame f;
    f.header = {static_cast<uint32_t>(body.size()), static_cast<uint16_t>(type), flags, sequence,
                result};
    f.body = body;
    return f;
}

Bytes joined(const std::vector<Frame> &frames)
{
    Bytes all;
    for (const Frame &f : frames) {
        const Bytes b = f.bytes();
        all.insert(all.end(), b.begin(), b.end());
    }
    return all;
}

Bytes counted(size_t n, size_t from = 0)
{
    Bytes b(n);
    for (size_t i = 0; i < n; i++) b[i] = static_cast<uint8_t>(from + i);
    return b;
}

// Memory for a copy, with bytes around it that nobody may touch.
struct Guarded {
    Bytes all = Bytes(kGuard + kBytes + kGuard, 0xa5);

    uint8_t *to() { return all.data() + kGuard; }
    bool whole() const
    {
        return Bytes(all.begin() + kGuard, all.end() - kGuard) == counted(kBytes);
    }
    bool untouched() const
    {
        auto same = [](uint8_t b) { return b == 0xa5; };
        return std::all_of(all.begin(), all.begin() + kGuard, same) &&
               std::all_of(all.end() - kGuard, all.end(), same);
    }
};

CUresult copy(interpose::ServerSession &s, Guarded &memory)
{
    return s.copy_out(
        CallId::cuMemcpyDtoHAsync_v2, 0, [](wire::Writer &) {}, memory.to(), kBytes, true);
}

CUresult ask(interpose::ServerSession &s)
{
    interpose::Reply reply;
    return s.ask(
        CallId::cuCtxSynchronize, 0, [](wire::Writer &) {}, reply);
}

}  // namespace

Test(broken_server, a_copy_in_one_frame_and_in_two)
{
    alarm(kLimit);
    Guarded one, two;
    cr_expect(from_broken_server(
                  joined({frame(ServerFrame::data, wire::kLast, 1, CUDA_SUCCESS, counted(kBytes))}),
                  [&](auto &s) { return copy(s, one); }) == CUDA_SUCCESS);
    cr_expect(from_broken_server(
                  joined({frame(ServerFrame::data, 0, 1, CUDA_SUCCESS, counted(60)),
                          frame(ServerFrame::data, wire::kLast, 1, CUDA_SUCCESS, counted(40, 60))}),
                  [&](auto &s) { return copy(s, two); }) == CUDA_SUCCESS);
    cr_expect(one.whole() && one.untouched() && two.whole() && two.untouched());
}

Test(broken_server, damaged_copies)
{
    alarm(kLimit);
    const Bytes first = joined({frame(ServerFrame::data, 0, 1, CUDA_SUCCESS, counted(60))});
    const Frame last = frame(ServerFrame::data, wire::kLast, 1, CUDA_SUCCESS, counted(40, 60));
    size_t tried = 0, refused = 0;
    damage(last, [&](const Bytes &damaged, bool cut) {
        for (const Bytes &before : {first, Bytes()}) {
            Bytes stream = before;
            stream.insert(stream.end(), damaged.begin(), damaged.end());
            Guarded memory;
            const CUresult r = from_broken_server(stream, [&](auto &s) { return copy(s, memory); });
            cr_expect(memory.untouched(), "bytes beside the program's memory were written");
            cr_expect(!cut || r != CUDA_SUCCESS, "a copy that ended too early");
            cr_expect(!before.empty() || r != CUDA_SUCCESS, "a copy without its first part");
            tried++, refused += r != CUDA_SUCCESS;
        }
    });
    cr_expect(refused > tried / 2, "%zu of %zu", refused, tried);
}

Test(broken_server, a_copy_that_failed_need_not_be_whole)
{
    alarm(kLimit);
    Guarded memory;
    const CUresult r = from_broken_server(
        joined({frame(ServerFrame::data, wire::kLast, 1, CUDA_ERROR_ILLEGAL_ADDRESS, counted(8))}),
        [&](auto &s) {
            const CUresult copied = copy(s, memory);
            cr_expect(s.state() == CUDA_SUCCESS, "the connection stands");
            return copied;
        });
    cr_expect(r == CUDA_ERROR_ILLEGAL_ADDRESS);
    cr_expect(memory.untouched());
}

Test(broken_server, success_without_the_bytes_of_a_copy)
{
    alarm(kLimit);
    Guarded memory;
    const CUresult r = from_broken_server(
        joined({frame(ServerFrame::reply, wire::kLast, 1, CUDA_SUCCESS, {})}), [&](auto &s) {
            const CUresult copied = copy(s, memory);
            cr_expect(s.state() != CUDA_SUCCESS, "the connection stands");
            return copied;
        });
    cr_expect(r != CUDA_SUCCESS);
    cr_expect(memory.untouched());
    cr_expect(from_broken_server(
                  joined({frame(ServerFrame::reply, wire::kLast, 1, CUDA_ERROR_INVALID_VALUE, {})}),
                  [&](auto &s) { return copy(s, memory); }) == CUDA_ERROR_INVALID_VALUE);
}

Test(broken_server, bytes_of_a_copy_for_a_call_that_is_none)
{
    alarm(kLimit);
    cr_expect(
        from_broken_server(joined({frame(ServerFrame::data, wire::kLast, 1, CUDA_SUCCESS, {})}),
                           ask) != CUDA_SUCCESS);
}

Test(broken_server, bytes_that_nobody_asked_for)
{
    alarm(kLimit);
    for (uint32_t sequence : {0u, 2u, ~0u})
        cr_expect(from_broken_server(joined({frame(ServerFrame::data, wire::kLast, sequence,
                                                   CUDA_SUCCESS, counted(8)),
                                             frame(ServerFrame::reply, 0, 1, CUDA_SUCCESS, {})}),
                                     ask) != CUDA_SUCCESS);
}

Test(broken_server, callbacks)
{
    alarm(kLimit);
    static std::atomic<int> called{0};
    const uint64_t token = interpose::graph_function([](void *) { called++; }, nullptr);
    Bytes body;
    recorder::add(body, token + 1000);
    const Frame reply = frame(ServerFrame::reply, 0, 1, CUDA_SUCCESS, {});
    const Frame unknown = frame(ServerFrame::callback, 0, 0, CUDA_SUCCESS, body);
    // One that nobody expects, of a function that nobody knows: the connection goes on, and nothing
    // waits for more.
    cr_expect(
        from_broken_server(joined({unknown, unknown, reply}), [](interpose::ServerSession &s) {
            const CUresult r = ask(s);
            cr_expect(!s.pushes_expected(), "an unexpected callback counts as one that is to come");
            return r;
        }) == CUDA_SUCCESS);
    size_t tried = 0;
    damage(unknown, [&](const Bytes &damaged, bool cut) {
        Bytes stream = damaged;
        const Bytes after = reply.bytes();
        stream.insert(stream.end(), after.begin(), after.end());
        const CUresult r = from_broken_server(stream, ask);
        cr_expect(!cut || r != CUDA_SUCCESS, "a callback of the wrong length");
        tried++;
    });
    cr_expect(tried > 100);
}

Test(broken_server, what_kernels_printed)
{
    alarm(kLimit);
    const Frame reply = frame(ServerFrame::reply, 0, 1, CUDA_SUCCESS, {});
    damage(frame(ServerFrame::text, 0, 0, CUDA_SUCCESS, {}), [&](const Bytes &damaged, bool) {
        Bytes stream = damaged;
        const Bytes after = reply.bytes();
        stream.insert(stream.end(), after.begin(), after.end());
        from_broken_server(stream, ask);
    });
}
