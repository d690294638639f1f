// SPDX-License-Identifier: Apache-2.0
// Frames to a worker whose bodies the table does not describe, with good and bad numbers in them.
#pragma once

#include "calls/nccl.h"
#include "t/fuzz/table_calls.h"
#include "wire/band.h"
#include "wire/bands.h"
#include "wire/bodies.h"
#include "wire/image.h"
#include "wire/lanes.h"
#include "wire/launch_event.h"
#include "wire/mirror.h"
#include "wire/module_bodies.h"
#include "wire/nccl.h"
#include "wire/nvml.h"
#include "wire/packing.h"
#include "wire/shareable.h"
#include "wire/status.h"

namespace rgpu::fuzz {

struct Made {
    uint16_t type = 0;
    Bytes body;
    bool in_table = true;
};

namespace detail {

inline void write_name(wire::Writer &w, Chance &random)
{
    const bool pool = random() % 2;
    const wire::ShareableName name{pool ? wire::ShareableName::Kind::pool
                                        : wire::ShareableName::Kind::memory,
                                   random() % 4,
                                   {},
                                   "lease"};
    const Bytes bytes = wire::encode(name);
    w.string({reinterpret_cast<const char *>(bytes.data()), bytes.size()});
}

inline void write_mirror_step(wire::Writer &w, Chance &random)
{
    const auto step = static_cast<wire::MirrorStep>(random() % 7);
    w.value(step);
    switch (step) {
    case wire::MirrorStep::reserve:
    case wire::MirrorStep::back_mapped:
        w.value(random() % 2 ? uint64_t{0} : odd_number(random)), w.value(wire::kMirrorGranule);
        break;
    case wire::MirrorStep::push:
        w.value(wire::MirroredRange{odd_number(random), odd_number(random)}), w.value(uint8_t{0});
        w.value(uint64_t{1});
        break;
    case wire::MirrorStep::pull:
        w.value(uint64_t{1}), w.value(wire::MirroredRange{odd_number(random), 64});
        break;
    default: w.value(odd_number(random));
    }
}

inline void write_load(wire::Writer &w, Chance &random, calls::HandleId made, bool library)
{
    wire::LoadHead head;
    head.made = made;
    head.wrapping = static_cast<wire::ImageWrapping>(random() % 3);
    head.parts.assign(1 + random() % 2, sizeof test::kImage);
    head.write(w);
    w.value(uint32_t{0});
    if (library) w.value(uint32_t{0});
    if (random() % 4 == 0) return w.value(wire::ImageForm::digest), w.value(Digest{});
    w.value(wire::ImageForm::bytes);
    for (size_t i = 0; i < head.parts.size(); i++) w.bytes(test::kImage, sizeof test::kImage);
}

// With attributes, one of which may name an event, and a block that may be large.
template <class Handle> void write_launch(wire::Writer &w, Chance &random, const Handle &handle)
{
    using calls::HandleKind;
    wire::LaunchHead head{};
    head.function = handle(HandleKind::function);
    head.stream = random() % 2 ? calls::kNoHandle : handle(HandleKind::stream);
    head.cooperative = random() % 2;
    head.attributes = random() % 3;
    w.value(head);
    for (uint32_t i = 0; i < head.attributes; i++) {
        CUlaunchAttribute a{};
        a.id = random() % 2 ? CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT : CU_LAUNCH_ATTRIBUTE_PRIORITY;
        CUevent *const event = wire::event_of(a);
        if (event) *event = reinterpret_cast<CUevent>(uintptr_t{handle(HandleKind::event)});
        w.value(a);
    }
    const Bytes block(random() % 4 ? 24 : 5000);
    w.value(static_cast<uint32_t>(block.size())), w.bytes(block.data(), block.size());
}

// A call of the table whose handler reads its body itself.
inline void write_call(TableCalls &table, Chance &random, CallId id, wire::Writer &w)
{
    using calls::HandleKind;
    const auto handle = [&](HandleKind kind) {
        const auto &all = table.numbers[kind];
        return all.empty() || random() % 8 == 0 ? static_cast<calls::HandleId>(odd_number(random))
                                                : all[random() % all.size()];
    };
    const auto address = [&] { return odd_number(random); };
    switch (id) {
    case CallId::cuGraphDestroy:
        w.value(handle(HandleKind::graph)), w.value(uint64_t{1});
        w.value(handle(HandleKind::graph_node));
        break;
    case CallId::cuGraphDebugDotPrint: w.value(handle(HandleKind::graph)), w.value(0u); break;
    case CallId::cuStreamGetCaptureInfo_v3: w.value(handle(HandleKind::stream)); break;
    case CallId::cuMemAllocManaged: write_mirror_step(w, random); break;
    case CallId::cuModuleGetGlobal_v2:
        wire::VariableLookUp{handle(HandleKind::module), "x"}.write(w);
        break;
    case CallId::cuLibraryGetManaged:
        wire::VariableLookUp{handle(HandleKind::library), "x"}.write(w);
        break;
    case CallId::cuModuleEnumerateFunctions:
        w.value(wire::FunctionList{handle(HandleKind::module), random() % 80});
        break;
    case CallId::cuLibraryEnumerateKernels:
        w.value(wire::FunctionList{handle(HandleKind::library), random() % 80});
        break;
    case CallId::cuMemExportToShareableHandle:
        w.value(random() % 2 ? wire::ShareStep::give : wire::ShareStep::closed);
        if (random() % 2)
            w.value(address()), w.value(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
                w.value(uint64_t{0});
        else
            write_name(w, random);
        break;
    case CallId::cuMemPoolExportToShareableHandle:
        w.value(wire::ShareStep::give), w.value(handle(HandleKind::memory_pool));
        w.value(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR), w.value(uint64_t{0});
        break;
    case CallId::cuMemImportFromShareableHandle: write_name(w, random); break;
    case CallId::cuMemPoolImportFromShareableHandle:
        w.value(handle(HandleKind::memory_pool)), w.value(uint64_t{0});
        write_name(w, random);
        break;
    case CallId::cuDeviceGetGraphMemAttribute: w.value(CUdevice{0}), w.value(uint32_t{0}); break;
    case CallId::cuDeviceSetGraphMemAttribute:
        w.value(CUdevice{0}), w.value(uint32_t{0}), w.value(address());
        break;
    case CallId::cuMemFree_v2:
    case CallId::cuMemRelease: w.value(address()); break;
    case CallId::cuLaunchHostFunc:
        wire::HostFunction{static_cast<wire::HostFunctionStep>(random() % 4),
                           handle(HandleKind::stream), random() % 8}
            .write(w);
        break;
    case CallId::cuMemcpyDtoHAsync_v2:
        wire::CopyTarget{recorder::kMemory + random() % 64, random() % 64 ? 64u : 5u << 20,
                         handle(HandleKind::stream)}
            .write(w);
        break;
    case CallId::cuLaunchKernel: write_launch(w, random, handle); break;
    case CallId::cuModuleLoadDataEx:
    case CallId::cuLibraryLoadData:
        write_load(w, random, handle(HandleKind::module), id == CallId::cuLibraryLoadData);
        break;
    default: break;
    }
}

// What a client says of the memory that it places itself.
inline void write_placed(wire::Writer &w, Chance &random)
{
    using enum wire::PlacedStep;
    const auto step = static_cast<wire::PlacedStep>(random() % 7);
    const auto address = [&]() -> uint64_t {
        return random() % 4 ? wire::placed_begin(0) + wire::Band::kPage * (random() % 8)
                            : odd_number(random);
    };
    const auto bytes = [&]() -> uint64_t {
        return random() % 4 ? wire::Band::kPage * (1 + random() % 32) : odd_number(random);
    };
    w.value(step);
    switch (step) {
    case credit: {
        const wire::CreditRequest request{0, random() % 3, bytes()};
        w.value(request);
        for (uint32_t i = 0; i < request.addresses; i++) w.value(address());
        break;
    }
    case give_back:
    case take_piece: w.value(CUdevice{0}), w.value(bytes()); break;
    case take_pages: w.value(CUdevice{0}), w.value(address()), w.value(bytes()); break;
    default: w.value(address()), w.value(bytes());
    }
}

// Calls of NCCL, whose parameters stand in an order of their own.
inline void write_nccl(wire::Writer &w, Chance &random)
{
    const auto number = [&] { return static_cast<uint32_t>(random() % 4); };
    const uint32_t calls_ = random() % 3;
    w.value(uint32_t{0}), w.value(static_cast<uint8_t>(random() % 2)), w.value(calls_);
    for (uint32_t i = 0; i < calls_; i++) {
        const calls::NcclFunction &f = calls::nccl_at(random() % calls::nccl_count());
        w.string(f.name), w.value(number());
        for (const char letter : f.parameters) switch (letter) {
            case 'A': w.value(uint32_t{2}), w.value(number()), w.value(number()); break;
            case 'l': w.value(uint8_t{1}), w.value(uint32_t{1}), w.value(number()); break;
            case 'u': w.value(calls::NcclUniqueId()); break;
            case 'U': w.value(uint32_t{1}), w.value(calls::NcclUniqueId()); break;
            case 'f': w.value(uint8_t{0}); break;
            case 'z':
            case 'w':
            case 'h':
            case 'v': w.value(odd_number(random)); break;
            default:
                if (std::string_view("sSdDbaqrGB").find(letter) != std::string_view::npos)
                    w.value(recorder::kMemory + random() % 64);
                else if (std::string_view("YHIVL").find(letter) == std::string_view::npos)
                    w.value(number());
            }
    }
}

// A frame that is none of the table's.
inline uint16_t write_beside(Chance &random, wire::Writer &w)
{
    switch (random() % 7) {
    case 0: return wire::kStatusCall;
    case 1:
        w.string(random() % 2 ? "nvmlDeviceGetTemperature" : "nvmlDeviceGetUtilizationRates");
        w.value(uint32_t{0}), w.value(uint64_t{0}), w.value(uint32_t{8});
        return wire::kNvmlCall;
    case 2: w.value(random() % 40); return wire::kBandCall;
    case 3: write_placed(w, random); return wire::kPlacedCall;
    case 4: w.value(wire::LanesCall{random() % 20, random() % 2}); return wire::kLanesCall;
    case 5: write_nccl(w, random); return wire::kNcclCall;
    default:
        w.value(wire::Packing{random() % 8, static_cast<wire::PackWish>(random() % 4), random()});
        return wire::kPackingCall;
    }
}

}  // namespace detail

inline Made hand_frame(TableCalls &table, Chance &random)
{
    static constexpr CallId kByHand[] = {
        CallId::cuGraphDestroy,
        CallId::cuGraphDebugDotPrint,
        CallId::cuStreamGetCaptureInfo_v3,
        CallId::cuMemAllocManaged,
        CallId::cuMemAllocManaged,
        CallId::cuMemAllocManaged,
        CallId::cuModuleGetGlobal_v2,
        CallId::cuLibraryGetManaged,
        CallId::cuModuleEnumerateFunctions,
        CallId::cuLibraryEnumerateKernels,
        CallId::cuMemExportToShareableHandle,
        CallId::cuMemPoolExportToShareableHandle,
        CallId::cuMemImportFromShareableHandle,
        CallId::cuMemPoolImportFromShareableHandle,
        CallId::cuDeviceGetGraphMemAttribute,
        CallId::cuDeviceSetGraphMemAttribute,
        CallId::cuMemFree_v2,
        CallId::cuMemRelease,
        CallId::cuLaunchHostFunc,
        CallId::cuLaunchKernel,
        CallId::cuMemcpyDtoHAsync_v2,
        CallId::cuModuleLoadDataEx,
        CallId::cuLibraryLoadData,
    };
    Made made;
    wire::Writer w(made.body);
    if (random() % 4 == 0) {
        made.in_table = false;
        made.type = detail::write_beside(random, w);
    } else {
        const CallId id = kByHand[random() % std::size(kByHand)];
        made.type = static_cast<uint16_t>(id);
        detail::write_call(table, random, id, w);
    }
    return made;
}

}  // namespace rgpu::fuzz
