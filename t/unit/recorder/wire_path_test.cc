// SPDX-License-Identifier: Apache-2.0
// Every forwarded line of the table goes over the wire bit for bit, and every damaged frame fails
// cleanly on both sides.
#include <criterion/criterion.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <set>

#include "interpose/state/ranges.h"
#include "interpose/stub/by_hand.h"
#include "t/unit/recorder/support.h"
#include "worker/calls/services.h"

using namespace rgpu;
using namespace rgpu::test;

namespace {

constexpr unsigned kLimit = 120;  // seconds: a test that hangs ends here
std::mt19937_64 dice(2024);
bool steady =
    false;  // no null pointers, all counts the same: every call of a line has answers of one shape

template <class T> T random_value()
{
    T v;
    for (size_t i = 0; i < sizeof v; i++)
        reinterpret_cast<uint8_t *>(&v)[i] = static_cast<uint8_t>(dice());
    return v;
}

// A number between 1 and 8.
uint64_t few() { return 1 + dice() % 8; }

// Values that the worker takes: what they name is in the recorder's memory.
template <class V> void make_sound(V &) {}
void make_sound(CUDA_MEMSET_NODE_PARAMS &p)
{
    p.dst = recorder::kMemory + dice() % 4096;
    p.pitch = few(), p.elementSize = 4, p.width = few(), p.height = few();
}
void make_sound(CUstreamBatchMemOpParams &p)
{
    p.operation = dice() % 2 ? CU_STREAM_MEM_OP_WAIT_VALUE_32 : CU_STREAM_MEM_OP_WAIT_VALUE_64;
    p.waitValue.address = recorder::kMemory + dice() % 4096;
}
void make_sound(CUmemAllocationProp &p) { p.win32HandleMetaData = nullptr; }
void make_sound(CUmemPoolProps &p) { p.win32SecurityAttributes = nullptr; }

// A number that is looked up, of a parameter with this use.
uint64_t sound_number(worker::Addresses &known, calls::Use use)
{
    using calls::Token;
    using calls::Use;
    const uint64_t number = use == Use::spot ? dice() : recorder::kMemory + 64 * (dice() % 4096);
    if (use == Use::token || use == Use::token_end)
        for (Token of : {Token::memory, Token::texture, Token::surface, Token::condition})
            known.give(of, number);
    else if (use != Use::mem && use != Use::frees && use != Use::spot)
        known.reserve(number, 64);
    return number;
}

// One random argument: what the client passes, what the driver should get, and the memory behind
// it.
template <RoleKind Kind, class T> struct Argument {
    using V = interpose::detail::Pointee<T>;
    static constexpr bool handle_in = (Kind == RoleKind::in || Kind == RoleKind::ends) &&
                                      calls::kIsHandle<T>;
    static constexpr bool handle_out = Kind == RoleKind::out && calls::kIsHandle<V>;

    T client{}, driver{};
    std::vector<Bytes> memory;

    void make(Wire &wire, const calls::Role &role, bool is_count, bool may_be_none)
    {
        if constexpr (handle_in) {
            driver = reinterpret_cast<T>(uintptr_t{0xd00000000} + (dice() & 0xfffffff0));
            client = wire.handle(driver);
        } else if (Kind == RoleKind::in && role.use != calls::Use::value) {
            const uint64_t number = sound_number(wire.server().addresses, role.use);
            memcpy(&client, &number, std::min(sizeof client, sizeof number));
            driver = client;
        } else if constexpr (Kind == RoleKind::in || Kind == RoleKind::ends) {
            client = is_count ? random_count(may_be_none) : random_value<T>();
            driver = client;
        } else if constexpr (std::is_pointer_v<T>) {
            if (!handle_out && !steady && dice() % 5 == 0) return;  // null
            constexpr size_t kMost = 8;
            size_t bytes = 256;
            if constexpr (!std::is_void_v<V>) bytes = kMost * sizeof(V) + 64;
            Bytes &m = memory.emplace_back(bytes + 16);
            for (uint8_t &b : m) b = static_cast<uint8_t>(dice());
            if constexpr ((std::is_class_v<V> || std::is_union_v<V>)&&(Kind == RoleKind::ref ||
                                                                       Kind == RoleKind::in_n))
                for (size_t i = 0; i < kMost; i++)
                    make_sound(reinterpret_cast<std::remove_cv_t<V> *>(m.data())[i]);
            if constexpr (Kind == RoleKind::str) {
                const size_t n = dice() % 60;
                for (size_t i = 0; i < n; i++) m[i] = static_cast<uint8_t>('!' + dice() % 90);
                m[n] = 0;
            }
            client = driver = reinterpret_cast<T>(m.data());
        }
    }
    static T random_count(bool may_be_none)
    {
        if constexpr (std::is_integral_v<T>)
            return static_cast<T>(steady ? 7 : few() - may_be_none);
        return random_value<T>();
    }
    // What came back, in the recorder's words.
    void outputs(Wire &wire, Bytes &to, size_t count)
    {
        if constexpr (handle_out) {
            V driver_handle{};
            const auto id = interpose::Handles::get().id(*client);
            if (id) wire.server().objects.get(*id, driver_handle);
            recorder::add(to, driver_handle);
        } else if constexpr (Kind == RoleKind::out) {
            if (client) recorder::add(to, *client);
        } else if constexpr (Kind == RoleKind::out_n) {
            if (client) recorder::add(to, client, count * sizeof *client);
        } else if constexpr (Kind == RoleKind::text) {
            if (client && count) recorder::add(to, client, strlen(client) + 1);
        }
    }
};

// A call of line Id with random arguments.
template <CallId Id, class F> struct Random;
template <CallId Id, class... A> struct Random<Id, CUresult (*)(A...)> {
    static constexpr auto index = std::index_sequence_for<A...>();

    // The arguments of one call; `use(client's tuple, driver's tuple, arguments)`.
    template <class Use> static auto with(Wire &wire, Use &&use)
    {
        return [&]<size_t... I>(std::index_sequence<I...>)
        {
            [[maybe_unused]] constexpr auto roles = calls::roles<Id>();
            [[maybe_unused]] auto is_count = [&](size_t i) {
                const auto n = static_cast<int>(i);
                for (const auto &role : roles)
                    if (role.count == n || role.pitch == n || role.height == n) return true;
                return false;
            };
            [[maybe_unused]] auto may_be_none = [&](size_t i) {
                return std::none_of(roles.begin(), roles.end(), [&](const auto &role) {
                    return role.count == static_cast<int>(i) && role.use != calls::Use::value;
                });
            };
            std::tuple<Argument<roles[I].kind, A>...> arguments;
            (std::get<I>(arguments).make(wire, roles[I], is_count(I), may_be_none(I)), ...);
            return use(std::tuple<A...>(std::get<I>(arguments).client...),
                       std::tuple<A...>(std::get<I>(arguments).driver...), arguments);
        }
        (index);
    }

    static CUresult call(const std::tuple<A...> &client)
    {
        return std::apply([](A... a) { return interpose::remote<Id>(a...); }, client);
    }

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

template <CallId Id> using RandomOf = Random<Id, typename calls::Row<Id>::Function>;

// f.operator()<Id>() for every plain line.
template <class F> void for_plain_rows(F &&f)
{
    auto one = [&]<CallId Id>() {
        if constexpr (is_plain<Id>()) f.template operator()<Id>();
    };
#define ROW(symbol, ...) one.template operator()<CallId::symbol>();
#include "calls/table.def"
}

constexpr char kImage[] =
    ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry recorded() { ret; }\n";

// Graphs: structs that hold handles and pointers.
void graph_calls(Wire &wire, CUfunction function, CUstream stream, void **params)
{
    using interpose::remote;
    CUgraph graph{};
    CUgraphNode first{}, second{}, host{};
    CUgraphExec exec{};
    cr_expect(remote<CallId::cuGraphCreate>(&graph, 0u) == CUDA_SUCCESS);
    CUDA_KERNEL_NODE_PARAMS_v2 kernel{};
    kernel.func = function;
    kernel.gridDimX = kernel.gridDimY = kernel.gridDimZ = kernel.blockDimX = kernel.blockDimY =
        kernel.blockDimZ = 1;
    kernel.kernelParams = params;
    cr_expect(remote<CallId::cuGraphAddKernelNode_v2>(&first, graph, nullptr, size_t{0}, &kernel) ==
              CUDA_SUCCESS);
    cr_expect(remote<CallId::cuGraphAddKernelNode_v2>(&second, graph, &first, size_t{1}, &kernel) ==
              CUDA_SUCCESS);
    cr_expect(remote<CallId::cuGraphKernelNodeSetParams_v2>(second, &kernel) == CUDA_SUCCESS);
    CUDA_MEMSET_NODE_PARAMS set{};
    set.dst = recorder::kMemory, set.elementSize = 1, set.width = 10, set.height = 1;
    cr_expect(remote<CallId::cuGraphAddMemsetNode>(&second, graph, &first, size_t{1}, &set,
                                                   CUcontext{}) == CUDA_SUCCESS);
    CUDA_HOST_NODE_PARAMS function_of_ours{[](void *) {}, nullptr};
    remote<CallId::cuGraphAddHostNode>(&host, graph, &first, size_t{1}, &function_of_ours);
    CUgraphNode nodes[4]{};
    size_t count = 4;
    remote<CallId::cuGraphGetNodes>(graph, nodes, &count);
    remote<CallId::cuGraphAddDependencies_v2>(graph, &first, &second, nullptr, size_t{1});
    remote<CallId::cuGraphInstantiateWithFlags>(&exec, graph, cuuint64_t{0});
    remote<CallId::cuGraphLaunch>(exec, stream);
    CUgraphExecUpdateResultInfo updated{};
    remote<CallId::cuGraphExecUpdate_v2>(exec, graph, &updated);
    CUgraphNodeParams any{};
    any.type = CU_GRAPH_NODE_TYPE_EMPTY;
    remote<CallId::cuGraphAddNode_v2>(&host, graph, &first, nullptr, size_t{1}, &any);
    cr_assert(wire.barrier() == CUDA_SUCCESS);
}

// The calls whose code is written by hand, by their own functions in the client; their frames stay
// in `wire`.
void hand_written_calls(Wire &wire)
{
    namespace own = interpose::own;
    const CUstream stream = wire.handle(reinterpret_cast<CUstream>(0x57ea0));
    const CUdeviceptr memory = recorder::kMemory;
    interpose::note_allocation(memory, 1 << 20);
    CUmodule module{};
    CUlibrary library{};
    CUfunction function{};
    CUkernel kernel{};
    CUfunction of_kernel{};
    cr_expect(own::cuModuleLoadDataEx(&module, kImage, 0, nullptr, nullptr) == CUDA_SUCCESS);
    cr_expect(own::cuLibraryLoadData(&library, kImage, nullptr, nullptr, 0, nullptr, nullptr, 0) ==
              CUDA_SUCCESS);
    cr_expect(own::cuModuleGetFunction(&function, module, "recorded") == CUDA_SUCCESS);
    cr_expect(own::cuLibraryGetKernel(&kernel, library, "recorded") == CUDA_SUCCESS);
    cr_expect(own::cuKernelGetFunction(&of_kernel, kernel) == CUDA_SUCCESS);

    uint64_t a = dice(), b = dice(), c = dice();
    void *params[] = {&a, &b, &c};
    cr_expect(own::cuLaunchKernel(function, 1, 2, 3, 4, 5, 6, 7, stream, params, nullptr) ==
              CUDA_SUCCESS);
    cr_assert(wire.barrier() == CUDA_SUCCESS);
    const Bytes launch = note_of(CallId::cuLaunchKernel).in;
    Bytes block;
    recorder::add(block, a), recorder::add(block, b), recorder::add(block, c);
    cr_expect(launch.size() > block.size() &&
                  std::equal(block.begin(), block.end(),
                             launch.end() - static_cast<ptrdiff_t>(block.size())),
              "the kernel's parameters arrive");

    Bytes up(3000), down(3000);
    for (uint8_t &x : up) x = static_cast<uint8_t>(dice());
    cr_expect(own::cuMemcpyHtoDAsync_v2(memory, up.data(), up.size(), stream) == CUDA_SUCCESS);
    cr_assert(wire.barrier() == CUDA_SUCCESS);
    const Bytes copied = note_of(CallId::cuMemcpyHtoDAsync_v2).in;
    cr_expect(
        copied.size() > up.size() &&
            std::equal(up.begin(), up.end(), copied.end() - static_cast<ptrdiff_t>(up.size())),
        "a copy's bytes arrive");
    cr_expect(own::cuMemcpyDtoHAsync_v2(down.data(), memory, down.size(), stream) == CUDA_SUCCESS);
    cr_expect(note_of(CallId::cuMemcpyDtoHAsync_v2).out == down,
              "a copy to the host brings the driver's bytes");

    graph_calls(wire, function, stream, params);

    CUlinkState link{};
    cr_expect(own::cuLinkCreate_v2(0, nullptr, nullptr, &link) == CUDA_SUCCESS);
    cr_expect(own::cuLinkAddData_v2(link, CU_JIT_INPUT_PTX, const_cast<char *>(kImage),
                                    sizeof kImage, "one", 0, nullptr, nullptr) == CUDA_SUCCESS);
    void *cubin{};
    size_t cubin_bytes{};
    cr_expect(own::cuLinkComplete(link, &cubin, &cubin_bytes) == CUDA_SUCCESS);
    cr_expect(cubin_bytes == sizeof "a linked image" &&
                  !memcmp(cubin, "a linked image", cubin_bytes),
              "a linked image comes back");

    const auto pool = wire.handle(reinterpret_cast<CUmemoryPool>(0x9001));
    uint64_t value = dice();
    own::cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &value);
    own::cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &value);
    own::cuLaunchHostFunc(
        stream, [](void *) {}, nullptr);
    interpose::remote<CallId::cuStreamSynchronize>(stream);
    interpose::remote<CallId::cuCtxSynchronize>();
    interpose::remote<CallId::cuEventSynchronize>(wire.handle(reinterpret_cast<CUevent>(0xe7e47)));
    cr_assert(wire.barrier() == CUDA_SUCCESS);
}

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
    for (int i = 0; i < 8; i++)
        for_plain_rows([&]<CallId Id>() { RandomOf<Id>::round_trip(wire); });
}

Test(wire_path, addresses_that_are_not_the_sessions_reach_no_driver)
{
    alarm(kLimit);
    use_recorder();
    Wire wire;
    size_t tried = 0;
    for_plain_rows([&]<CallId Id>() { tried += RandomOf<Id>::refused(wire); });
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
    for_plain_rows([&]<CallId Id>() { RandomOf<Id>::error(wire); });
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
    for_plain_rows([&]<CallId Id>() { RandomOf<Id>::round_trip(wire); });
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
    for_plain_rows([&]<CallId Id>() { tried += RandomOf<Id>::damaged_reply(wire); });
    fprintf(stderr, "answers in %zu damaged forms\n", tried);
    cr_expect(tried > 5000);
}
