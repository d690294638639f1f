// SPDX-License-Identifier: Apache-2.0
// Every forwarded line of the table goes over the wire bit for bit, and every damaged frame fails
// cleanly on both sides.
#include <criterion/criterion.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <set>

#include "t/unit/recorder/hand_written.h"
#include "t/unit/recorder/random_calls.h"
#include "worker/calls/services.h"

using namespace rgpu;
using namespace rgpu::test;

namespace {

constexpr unsigned kLimit = 120;  // seconds: a test that hangs ends here

// What is tried with a line's calls.
template <CallId Id> struct Tried : RandomOf<Id> {
    using RandomOf<Id>::call;
    using RandomOf<Id>::index;
    using RandomOf<Id>::with;

    static void round_trip(Wire &wire)
    {
        const char *name = calls::info(Id).symbol.data();
        with(wire, [&](auto client, auto driver, auto &arguments) {
            const uint64_t before = note_of(Id).calls;
            const CUresult r = call(client);
            cr_expect(r == CUDA_SUCCESS, "%s: %d", name, r);
            cr_assert(wire.barrier() == CUDA_SUCCESS);
            if (Id == CallId::cuMemGetInfo_v2) return;  // is the barrier, too
            const Note note = note_of(Id);
            cr_expect(note.calls > before, "%s did not reach the driver", name);
            cr_expect(note.in == recorder::note_arguments<Id>(driver),
                      "%s: the driver got other arguments", name);
            Bytes outputs;
            [&]<size_t... I>(std::index_sequence<I...>)
            {
                (std::get<I>(arguments).outputs(wire, outputs, recorder::count_of<Id, I>(client)),
                 ...);
                [[maybe_unused]] constexpr auto roles = calls::roles<Id>();
                (ended<roles[I].kind>(name, std::get<I>(client)), ...);
            }
            (index);
            cr_expect(note.out == outputs, "%s: the client got other results", name);
        });
    }
    template <RoleKind Kind, class T> static void ended(const char *name, T handle)
    {
        if constexpr (Kind == RoleKind::ends && calls::kIsHandle<T>)
            cr_expect(!interpose::Handles::get().id(handle), "%s: the handle that it ends lives",
                      name);
    }

    // The line's addresses and tokens, each in its turn one of this process's own: the driver never
    // gets the call.
    static size_t refused(Wire &wire)
    {
        size_t tried = 0;
        [&]<size_t... I>(std::index_sequence<I...>) { ((tried += refused_at<I>(wire)), ...); }
        (index);
        return tried;
    }
    template <size_t I> static size_t refused_at(Wire &wire)
    {
        constexpr calls::Role role = calls::roles<Id>()[I];
        if constexpr (role.kind != RoleKind::in || !calls::is_looked_up(role.use)) {
            return 0;
        } else {
            static char ours[4096];
            const auto number = reinterpret_cast<uint64_t>(ours);
            steady = true;  // no counts of zero
            const uint64_t before = note_of(Id).calls;
            with(wire, [&](auto client, auto, auto &) {
                memcpy(&std::get<I>(client), &number, sizeof number);
                const CUresult r = call(client);
                const bool posted = calls::info(Id).mode == calls::Mode::post;
                cr_expect(posted || r == CUDA_ERROR_INVALID_VALUE, "%s, parameter %zu: %d",
                          calls::info(Id).symbol.data(), I, r);
                return 0;
            });
            cr_assert(wire.barrier() == CUDA_SUCCESS);
            cr_expect(note_of(Id).calls == before, "%s, parameter %zu reached the driver",
                      calls::info(Id).symbol.data(), I);
            steady = false;
            return 1;
        }
    }

    // Answered calls: an error is the call's own result.
    static void error(Wire &wire)
    {
        if (calls::info(Id).mode == calls::Mode::post) return;
        with(wire, [&](auto client, auto, auto &) {
            const CUresult r = call(client);
            cr_expect(r == CUDA_ERROR_ECC_UNCORRECTABLE, "%s: %d", calls::info(Id).symbol.data(),
                      r);
            return 0;
        });
    }

    // The client reads what a broken server sends in place of its answer.
    static size_t damaged_reply(Wire &wire)
    {
        if (calls::info(Id).mode == calls::Mode::post) return 0;
        Frame reply = with(wire, [&](auto client, auto, auto &) {
            call(client);
            return wire.reply_to(wire.last_call(Id).header.sequence).value_or(Frame{});
        });
        reply.header.sequence = 1;
        size_t tried = 0;
        damage(reply, [&](const Bytes &stream, bool cut) {
            with(wire, [&](auto client, auto, auto &) {
                const CUresult r = from_broken_server(stream, [&](auto &) { return call(client); });
                cr_expect(!cut || r != CUDA_SUCCESS || reply.body.empty(),
                          "%s: took an answer that was too short", calls::info(Id).symbol.data());
                tried++;
                return 0;
            });
        });
        return tried;
    }
};

}  // namespace

// What the committed page says of the recorder is no more than what is tested here.
Test(wire_path, the_list_of_rows_is_true)
{
    std::set<std::string> plain;
    for_plain_rows([&]<CallId Id>() { plain.emplace(calls::info(Id).symbol); });
    cr_assert(plain.size() > 60, "%zu rows", plain.size());
    if (const char *to = getenv("RGPU_WRITE_RECORDER_LIST")) {
        std::ofstream out(to);
        out << "# Calls whose arguments and results t/unit/recorder/wire_path_test.cc sends over "
               "the "
               "wire; it checks\n# this list.\n";
        for (const std::string &s : plain) out << s << '\n';
    }
    std::ifstream list("t/lib/calls-recorder.list");
    cr_assert(list, "t/lib/calls-recorder.list; tests run in the source tree");
    size_t lines = 0;
    for (std::string line; std::getline(list, line);) {
        if (line.empty() || line[0] == '#') continue;
        cr_expect(plain.contains(line), "%s is not tested here", line.c_str());
        lines++;
    }
    cr_expect(lines > 60);
}

Test(wire_path, every_plain_row_round_trips_random_arguments)
{
    alarm(kLimit);
    use_recorder();
    Wire wire;
    for (int i = 0; i < 8; i++) for_plain_rows([&]<CallId Id>() { Tried<Id>::round_trip(wire); });
}

Test(wire_path, addresses_that_are_not_the_sessions_reach_no_driver)
{
    alarm(kLimit);
    use_recorder();
    Wire wire;
    size_t tried = 0;
    for_plain_rows([&]<CallId Id>() { tried += Tried<Id>::refused(wire); });
    cr_expect(tried > 30, "%zu parameters", tried);
}

// A line that stands for others is served to nobody, and one that is sent to all.
Test(wire_path, what_no_client_sends_is_served_to_none)
{
    for (size_t i = 0; i < calls::kCallCount; i++)
        cr_expect((worker::kServices[i].handle != nullptr) == calls::is_sent(calls::kCalls[i]),
                  "%s", calls::kCalls[i].symbol.data());
}

Test(wire_path, an_error_of_the_driver_is_the_calls_result)
{
    alarm(kLimit);
    use_recorder();
    Wire wire;
    answer(CUDA_ERROR_ECC_UNCORRECTABLE);
    for_plain_rows([&]<CallId Id>() { Tried<Id>::error(wire); });
    answer(CUDA_SUCCESS);
}

Test(wire_path, hand_written_rows_carry_their_bytes)
{
    alarm(kLimit);
    use_recorder();
    Wire wire;
    hand_written_calls(wire);
}

Test(wire_path, the_worker_takes_no_harm_from_damaged_frames)
{
    alarm(kLimit);
    use_recorder();
    Wire wire;
    for_plain_rows([&]<CallId Id>() { Tried<Id>::round_trip(wire); });
    hand_written_calls(wire);
    Victim victim(wire.server().objects);
    const auto frames = wire.last_calls();
    cr_assert(frames.size() > 80, "%zu frames", frames.size());
    size_t tried = 0, refused = 0;
    for (const auto &[number, frame] : frames) {
        cr_expect(victim.takes(frame.bytes()), "%s undamaged", calls::kCalls[number].symbol.data());
        // The data of a link input is what is left of its body: shorter is another input.
        const uint32_t good_bytes =
            number == static_cast<uint16_t>(CallId::cuLinkAddData_v2) ? 0 : frame.header.bytes;
        damage(frame, [&](const Bytes &stream, bool cut) {
            const bool well = victim.takes(stream);
            tried++, refused += !well;
            // A frame that is shorter than its parameters must never be carried out.
            cr_expect(!cut || !well || !good_bytes, "%s: %zu bytes of %u were enough",
                      calls::kCalls[number].symbol.data(),
                      stream.size() - sizeof(wire::FrameHeader), good_bytes);
        });
    }
    fprintf(stderr, "%zu frames in %zu damaged forms, %zu refused\n", frames.size(), tried,
            refused);
    cr_expect(refused > tried / 4);
}

Test(wire_path, the_client_takes_no_harm_from_damaged_answers)
{
    alarm(kLimit);
    use_recorder();
    Wire wire;
    steady = true;
    size_t tried = 0;
    for_plain_rows([&]<CallId Id>() { tried += Tried<Id>::damaged_reply(wire); });
    fprintf(stderr, "answers in %zu damaged forms\n", tried);
    cr_expect(tried > 5000);
}
