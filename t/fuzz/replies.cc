// SPDX-License-Identifier: Apache-2.0
// Frames from a server, while a program copies, asks, or makes a call of the table. The input: what
// the program does, and the stream that the server says, either as it is or as a row of frames with
// good headers. Nothing beside the program's memory is written. Mutations put in answers as our
// worker gives them, and change what is inside.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "net/packing/pack_library.h"
#include "t/fuzz/table_calls.h"

using namespace rgpu;
using namespace rgpu::test;

extern "C" size_t LLVMFuzzerMutate(uint8_t *data, size_t bytes, size_t most);

namespace {

constexpr size_t kBytes = 100, kGuard = 256;
constexpr uint8_t kUntouched = 0xa5;

// What the input begins with.
struct Way {
    uint8_t how;   // bits below
    uint8_t dice;  // the arguments of a call
    uint16_t call;
};
static_assert(sizeof(Way) == 4);
constexpr uint8_t kFramed = 1, kAsksBefore = 2, kAsksAfter = 4, kCalls = 8, kPacks = 16,
                  kGoesOn = 32;  // the program does not wait for its copy

// In front of a frame's body where the stream is a row of frames.
struct Head {
    uint8_t type, flags;
    uint8_t sequence;  // two bits of it, and of the result
    uint8_t unused;
    uint16_t bytes;
    uint16_t becomes;  // of a part: its bytes when it is unpacked
};
static_assert(sizeof(Head) == 8);

CUresult copy(interpose::ServerSession &s, uint8_t *to, bool waits)
{
    return s.copy_out(
        CallId::cuMemcpyDtoHAsync_v2, 0, [](wire::Writer &) {}, to, kBytes, waits);
}

CUresult ask(interpose::ServerSession &s)
{
    interpose::Reply reply;
    return s.ask(
        CallId::cuCtxSynchronize, 0, [](wire::Writer &) {}, reply);
}

Wire *wire;
fuzz::TableCalls &table() { return fuzz::table_calls(wire); }

using Make = void (*)();

template <CallId Id, class Handle, class P> void ask_about()
{
    P answer{};
    (void)interpose::remote<Id>(wire->handle(reinterpret_cast<Handle>(0xd00000010)), &answer);
}

// A list of handles is asked for, with room for two.
template <CallId Id, class Handle> void ask_list()
{
    CUgraphNode from[2]{}, to[2]{};
    CUgraphEdgeData edges[2]{};
    size_t room = 2;
    const Handle of = wire->handle(reinterpret_cast<Handle>(0xd00000020));
    if constexpr (Id == CallId::cuGraphGetEdges_v2)
        (void)interpose::remote<Id>(of, from, to, edges, &room);
    else
        (void)interpose::remote<Id>(of, from, &room);
}

// What a program loads, and what it looks up in that.
void load_module()
{
    namespace own = interpose::own;
    CUjit_option options[] = {CU_JIT_INFO_LOG_BUFFER, CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES};
    char log[64];
    void *values[] = {log, reinterpret_cast<void *>(uintptr_t{sizeof log})};
    CUmodule module{};
    if (own::cuModuleLoadDataEx(&module, kImage, 2, options, values)) return;
    CUfunction function{};
    CUdeviceptr variable{};
    size_t bytes = 0;
    (void)own::cuModuleGetFunction(&function, module, "recorded");
    (void)own::cuModuleGetGlobal_v2(&variable, &bytes, module, "variable");
}
CUmodule some_module() { return wire->handle(reinterpret_cast<CUmodule>(0xd00000030)); }
void look_up_function()
{
    CUfunction function{};
    (void)interpose::own::cuModuleGetFunction(&function, some_module(), "recorded");
}
void look_up_variable()
{
    CUdeviceptr variable{};
    size_t bytes = 0;
    (void)interpose::own::cuModuleGetGlobal_v2(&variable, &bytes, some_module(), "variable");
}

template <CUgraphNodeType Type> void add_node()
{
    CUgraphNode node{};
    CUgraphNodeParams params{};
    params.type = Type;
    if (Type == CU_GRAPH_NODE_TYPE_CONDITIONAL) {
        params.conditional.ctx = wire->handle(reinterpret_cast<CUcontext>(0xd00000040));
        params.conditional.size = 1;
    }
    (void)interpose::remote<CallId::cuGraphAddNode_v2>(
        &node, wire->handle(reinterpret_cast<CUgraph>(0xd00000020)),
        static_cast<const CUgraphNode *>(nullptr), static_cast<const CUgraphEdgeData *>(nullptr),
        size_t{0}, &params);
}

// Calls whose answers hold handles and pointers.
void add_carried(std::vector<std::pair<CallId, Make>> &list)
{
    using enum CallId;
    list.insert(
        list.end(),
        {{cuGraphKernelNodeGetParams,
          ask_about<cuGraphKernelNodeGetParams, CUgraphNode, CUDA_KERNEL_NODE_PARAMS_v1>},
         {cuGraphKernelNodeGetParams_v2,
          ask_about<cuGraphKernelNodeGetParams_v2, CUgraphNode, CUDA_KERNEL_NODE_PARAMS_v2>},
         {cuGraphMemcpyNodeGetParams,
          ask_about<cuGraphMemcpyNodeGetParams, CUgraphNode, CUDA_MEMCPY3D>},
         {cuGraphHostNodeGetParams,
          ask_about<cuGraphHostNodeGetParams, CUgraphNode, CUDA_HOST_NODE_PARAMS>},
         {cuGraphMemAllocNodeGetParams,
          ask_about<cuGraphMemAllocNodeGetParams, CUgraphNode, CUDA_MEM_ALLOC_NODE_PARAMS>},
         {cuGraphBatchMemOpNodeGetParams,
          ask_about<cuGraphBatchMemOpNodeGetParams, CUgraphNode, CUDA_BATCH_MEM_OP_NODE_PARAMS>},
         {cuSurfObjectGetResourceDesc,
          [] {
              CUDA_RESOURCE_DESC answer{};
              (void)interpose::remote<cuSurfObjectGetResourceDesc>(&answer, CUsurfObject{1});
          }},
         {cuGraphExecUpdate_v2,
          [] {
              CUgraphExecUpdateResultInfo answer{};
              (void)interpose::remote<cuGraphExecUpdate_v2>(
                  wire->handle(reinterpret_cast<CUgraphExec>(0xd00000010)),
                  wire->handle(reinterpret_cast<CUgraph>(0xd00000020)), &answer);
          }},
         {cuGraphAddNode_v2, add_node<CU_GRAPH_NODE_TYPE_MEM_ALLOC>},
         {cuGraphAddNode_v2, add_node<CU_GRAPH_NODE_TYPE_CONDITIONAL>},
         {cuGraphGetNodes, ask_list<cuGraphGetNodes, CUgraph>},
         {cuGraphGetEdges_v2, ask_list<cuGraphGetEdges_v2, CUgraph>},
         {cuGraphChildGraphNodeGetGraph,
          ask_about<cuGraphChildGraphNodeGetGraph, CUgraphNode, CUgraph>},
         {cuModuleLoadDataEx, load_module},
         {cuModuleGetFunction, look_up_function},
         {cuModuleGetGlobal_v2, look_up_variable},
         {cuGraphInstantiateWithParams, [] {
              CUgraphExec exec{};
              CUDA_GRAPH_INSTANTIATE_PARAMS params{};
              (void)interpose::remote<cuGraphInstantiateWithParams>(
                  &exec, wire->handle(reinterpret_cast<CUgraph>(0xd00000020)), &params);
          }}});
}

// Calls of the table, by name; then those whose answers are read by code of their own.
const std::vector<std::pair<CallId, Make>> &calls_to_make()
{
    static const auto &all = *[] {
        auto *list = new std::vector<std::pair<CallId, Make>>;
        for_plain_rows([&]<CallId Id>() {
            if (calls::info(Id).mode == calls::Mode::post) return;
            list->emplace_back(Id, [] {
                RandomOf<Id>::with(*wire, [](auto client, auto, auto &arguments) {
                    if (RandomOf<Id>::call(client) == CUDA_SUCCESS)
                        std::apply([](auto &...a) { (a.forget(), ...); }, arguments);
                });
            });
        });
        add_carried(*list);
        return list;
    }();
    return all;
}

// A row of frames, each a Head and its body.
Bytes framed(const uint8_t *data, size_t bytes)
{
    Bytes stream;
    while (bytes >= sizeof(Head)) {
        Head head;
        memcpy(&head, data, sizeof head);
        const size_t body = std::min<size_t>(head.bytes, bytes - sizeof head);
        const auto type = static_cast<uint16_t>(head.type % 9);
        const bool part = type == static_cast<uint16_t>(wire::ServerFrame::part);
        const wire::FrameHeader header{static_cast<uint32_t>(body), type,
                                       static_cast<uint16_t>(head.flags % 8), head.sequence % 4u,
                                       part ? head.becomes : head.sequence / 64u};
        recorder::add(stream, header);
        recorder::add(stream, data + sizeof head, body);
        data += sizeof head + body, bytes -= sizeof head + body;
    }
    return stream;
}

// A good answer, or one part of a packed one, which is stored as it is.
void add_answer(Bytes &input, const Bytes &answer, bool packed)
{
    Bytes body(answer.begin(),
               answer.begin() + static_cast<ptrdiff_t>(std::min<size_t>(answer.size(), 60000)));
    using enum wire::ServerFrame;
    const auto bytes = static_cast<uint16_t>(body.size());
    if (!packed) {
        recorder::add(input, Head{static_cast<uint8_t>(reply), wire::kLast, 1, 0, bytes, 0});
        recorder::add(input, body.data(), body.size());
        return;
    }
    const auto whole = static_cast<uint16_t>(bytes + sizeof(wire::FrameHeader));
    recorder::add(input, Head{static_cast<uint8_t>(part), wire::kLast, 0, 0, whole, whole});
    recorder::add(input, wire::FrameHeader{bytes, static_cast<uint16_t>(reply), wire::kLast, 1, 0});
    recorder::add(input, body.data(), body.size());
}

// What a new conditional node's graphs are, as the worker says it.
Bytes conditional_answer(fuzz::Chance &random)
{
    Bytes body;
    wire::Writer w(body);
    const uint64_t graphs = random() % 4;
    w.value(uint32_t{CU_GRAPH_NODE_TYPE_CONDITIONAL}), w.value(graphs);
    for (uint64_t i = 0; i < graphs; i++) w.value(static_cast<calls::HandleId>(random()));
    return body;
}

// A call and its good answer.
Bytes good_answer(fuzz::Chance &random)
{
    const auto &all = calls_to_make();
    const size_t which = random() % all.size();
    const auto &made = table().made;
    const size_t from = random() % made.size();
    const bool packed = random() % 8 == 0;
    Bytes input;
    recorder::add(input, Way{static_cast<uint8_t>(kFramed | kCalls | (packed ? kPacks : 0)),
                             static_cast<uint8_t>(random()), static_cast<uint16_t>(which)});
    if (all[which].first == CallId::cuGraphAddNode_v2 && random() % 2) {
        add_answer(input, conditional_answer(random), packed);
        return input;
    }
    for (size_t i = 0; i < made.size(); i++) {
        const Exchange &e = made[(from + i) % made.size()];
        if (e.call.header.type != static_cast<uint16_t>(all[which].first) || !e.reply) continue;
        add_answer(input, e.reply->body, packed);
        break;
    }
    return input;
}

}  // namespace

// Building the table takes a second, which is no input's.
extern "C" int LLVMFuzzerInitialize(int *, char ***)
{
    (void)table();
    return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t bytes, size_t most, unsigned seed)
{
    fuzz::Chance random(seed);
    const unsigned which = random() % 4;
    if (which > 1 && bytes) return LLVMFuzzerMutate(data, bytes, most);
    Bytes input = which || !bytes ? good_answer(random) : Bytes(data, data + bytes);
    if (random() % 4) fuzz::disturb(input, random);
    const size_t n = std::min(input.size(), most);
    memcpy(data, input.data(), n);
    return n;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    Way way{};
    if (bytes < sizeof way || bytes > 60000) return 0;
    memcpy(&way, data, sizeof way);
    data += sizeof way, bytes -= sizeof way;
    const Bytes stream = way.how & kFramed ? framed(data, bytes) : Bytes(data, data + bytes);
    std::vector<uint8_t> memory(kGuard + kBytes + kGuard, kUntouched);
    // All arrays are there, and have as many elements as the answers of table() are for.
    steady = true;
    dice.seed(way.dice);
    from_broken_server(stream, [&](interpose::ServerSession &s) {
        if (way.how & kPacks) {
            auto packing = std::make_unique<interpose::Packing>(true);
            packing->in.use(net::PackLibrary::here().methods());
            s.use(std::move(packing));
        }
        if (way.how & kAsksBefore) (void)ask(s);
        CUresult r = CUDA_SUCCESS;
        if (way.how & kCalls)
            calls_to_make()[way.call % calls_to_make().size()].second();
        else
            r = copy(s, memory.data() + kGuard, !(way.how & kGoesOn));
        if (way.how & kAsksAfter) (void)ask(s);
        return r;
    });
    auto touched = [](uint8_t b) { return b != kUntouched; };
    if (std::any_of(memory.begin(), memory.begin() + kGuard, touched) ||
        std::any_of(memory.end() - kGuard, memory.end(), touched))
        abort();
    return 0;
}
