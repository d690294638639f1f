// SPDX-License-Identifier: Apache-2.0
// A worker's frames, from a client that holds a lease: under the worker is the driver that notes
// its calls (t/recorder). The input is a row of frames, each a Head and its body. Mutations put in
// frames as our client sends them, and change what is inside one frame.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>

#include "t/fuzz/hand_frames.h"
#include "worker/bands/bands.h"
#include "worker/connection/mailbox.h"

using namespace rgpu;
using namespace rgpu::test;
using fuzz::TableCalls;

extern "C" size_t LLVMFuzzerMutate(uint8_t *data, size_t bytes, size_t most);

namespace {

struct Head {
    uint16_t type;     // a line of the table, modulo their number; with kAny whatever it is
    uint8_t flags;     // of the frame
    uint8_t how;       // bits below
    uint16_t bytes;    // of the body; fewer where the input ends
    uint16_t context;  // the calling thread's
};
static_assert(sizeof(Head) == 8);
constexpr uint8_t kAny = 1;     // a type that is none of the table's
constexpr uint8_t kLies = 2;    // the length is what the head says, not what there is
constexpr uint8_t kStored = 4;  // no sequence, which says of a part that it is stored as it is
constexpr uint8_t kHuge = 8;    // the length is more than any call's
// Of the first frame: Victim::How, and what the driver answers. Looking ahead costs milliseconds:
// few inputs ask for that.
constexpr uint8_t kLent = 0x10, kFirst = 0xe0, kLookedAhead = 0xa0, kDriverFails = 0xc0;

TableCalls &table()
{
    static Wire *wire;
    return fuzz::table_calls(wire);
}

// Gives out 64 descriptors in all, as the worker keeps each for ever here. The recorder itself
// makes numbers up, which may be descriptors of this process.
CUresult export_some(void *to)
{
    static std::atomic<int> left = 64;
    if (left-- <= 0) return CUDA_ERROR_NOT_SUPPORTED;
    *static_cast<int *>(to) = memfd_create("fuzz", MFD_CLOEXEC);
    return CUDA_SUCCESS;
}

// Modules and libraries have few functions.
constexpr unsigned kFunctions = 8;
void give_few_functions(worker::Driver &driver)
{
    driver.replace<CallId::cuModuleGetFunctionCount>([](unsigned *out, auto) -> CUresult {
        if (out) *out = kFunctions;
        return CUDA_SUCCESS;
    });
    driver.replace<CallId::cuLibraryGetKernelCount>([](unsigned *out, auto) -> CUresult {
        if (out) *out = kFunctions;
        return CUDA_SUCCESS;
    });
}

// Addresses as they are asked for, in pages of 2 MiB.
void give_bands(worker::Driver &driver)
{
    using enum CallId;
    driver.replace<cuMemAddressReserve>(
        [](CUdeviceptr *out, size_t, size_t, CUdeviceptr wanted, unsigned long long) -> CUresult {
            if (!out) return CUDA_ERROR_INVALID_VALUE;
            *out = wanted ? wanted : recorder::kMemory;
            return CUDA_SUCCESS;
        });
    driver.replace<cuMemGetAllocationGranularity>(
        [](size_t *out, const CUmemAllocationProp *, CUmemAllocationGranularity_flags) -> CUresult {
            if (out) *out = 2 << 20;
            return CUDA_SUCCESS;
        });
    driver.replace<cuMemExportToShareableHandle>(
        [](void *to, auto...) -> CUresult { return export_some(to); });
    driver.replace<cuMemPoolExportToShareableHandle>(
        [](void *to, auto...) -> CUresult { return export_some(to); });
}

// The worker, with the program's memory in a band. What a client has placed there stays from one
// input to the next.
Victim &victim()
{
    static Victim &made = *[] {
        (void)table();
        worker::Mailbox::here().open();
        worker::Driver driver = worker::driver();
        give_bands(driver);
        give_few_functions(driver);
        worker::put_bands_in_front(driver, "fuzz");
        worker::set_driver(driver);
        return new Victim(table().objects, table().addresses);
    }();
    return made;
}

// The input's frames, each with its head.
std::vector<Bytes> split(const uint8_t *data, size_t bytes)
{
    std::vector<Bytes> frames;
    while (bytes >= sizeof(Head)) {
        Head head;
        memcpy(&head, data, sizeof head);
        const size_t all = sizeof head + std::min<size_t>(head.bytes, bytes - sizeof head);
        frames.emplace_back(data, data + all);
        data += all, bytes -= all;
    }
    return frames;
}

size_t join(const std::vector<Bytes> &frames, uint8_t *data, size_t most)
{
    size_t at = 0;
    for (const Bytes &frame : frames) {
        if (frame.size() > most - at) break;
        memcpy(data + at, frame.data(), frame.size());
        at += frame.size();
    }
    return at;
}

Bytes with_head(Head head, const Bytes &body)
{
    head.bytes = static_cast<uint16_t>(std::min<size_t>(body.size(), UINT16_MAX));
    Bytes frame;
    recorder::add(frame, head);
    recorder::add(frame, body.data(), head.bytes);
    return frame;
}

// In the context that the table's calls are made in.
Bytes in_context(uint16_t type, unsigned flags, const Bytes &body, uint8_t how = 0)
{
    const auto context = static_cast<uint16_t>(table().made.front().call.header.value);
    return with_head({type, static_cast<uint8_t>(flags), how, 0, context}, body);
}

Bytes good_frame(fuzz::Chance &random)
{
    const auto flags = static_cast<uint8_t>(random() % 8);
    if (random() % 4 == 0) {
        const fuzz::Made made = fuzz::hand_frame(table(), random);
        return in_context(made.type, flags, made.body, made.in_table ? uint8_t{0} : kAny);
    }
    const Frame &frame = table().made[random() % table().made.size()].call;
    return with_head({frame.header.type,
                      random() % 8 ? static_cast<uint8_t>(frame.header.flags) : flags, 0, 0,
                      static_cast<uint16_t>(frame.header.value)},
                     frame.body);
}

// A call that may have to wait for a copy or a host function in front of it.
Bytes call_that_waits(fuzz::Chance &random)
{
    using enum CallId;
    static constexpr CallId kWaiting[] = {
        cuLaunchKernel,    cuStreamQuery,       cuEventQuery,           cuEventRecord,
        cuStreamWaitEvent, cuStreamSynchronize, cuEventSynchronize,     cuModuleUnload,
        cuLibraryUnload,   cuArrayDestroy,      cuMipmappedArrayDestroy};
    const auto type = static_cast<uint16_t>(kWaiting[random() % std::size(kWaiting)]);
    const auto &made = table().made;
    const size_t from = random() % made.size();
    for (size_t i = 0; i < made.size(); i++)
        if (const Frame &f = made[(from + i) % made.size()].call; f.header.type == type)
            return with_head({type, static_cast<uint8_t>(f.header.flags), 0, 0,
                              static_cast<uint16_t>(f.header.value)},
                             f.body);
    return good_frame(random);
}

// A copy or a host function, which later calls may find unfinished.
Bytes copy_or_host_function(fuzz::Chance &random)
{
    Bytes body;
    wire::Writer w(body);
    const auto &streams = table().numbers[calls::HandleKind::stream];
    const calls::HandleId stream =
        random() % 2 || streams.empty() ? calls::kNoHandle : streams[random() % streams.size()];
    const bool copy = random() % 2;
    if (copy)
        wire::CopyTarget{recorder::kMemory, random() % 32 ? 16u << 10 : 5u << 20, stream}.write(w);
    else
        wire::HostFunction{wire::HostFunctionStep::enqueue, stream, 1 + random() % 4}.write(w);
    const CallId id = copy ? CallId::cuMemcpyDtoHAsync_v2 : CallId::cuLaunchHostFunc;
    return in_context(static_cast<uint16_t>(id), copy ? wire::kWantsReply : 0, body);
}

// The client packs from now on.
Bytes agreement()
{
    Bytes body;
    wire::Writer(body).value(wire::Packing{~0u, wire::PackWish::always, 0});
    return with_head({wire::kPackingCall, wire::kWantsReply, kAny, 0, 0}, body);
}

// The frame as one part of a packed one, which is stored.
Bytes packed(const Bytes &frame)
{
    Head head;
    memcpy(&head, frame.data(), sizeof head);
    Bytes part;
    recorder::add(part, wire::FrameHeader{head.bytes, head.type, head.flags, 1, head.context});
    recorder::add(part, frame.data() + sizeof head, frame.size() - sizeof head);
    return with_head(
        {wire::kPartCall, wire::kLast, kAny | kStored, 0, static_cast<uint16_t>(part.size())},
        part);
}

// Another body, and a head that fits it.
void change_inside(Bytes &frame, fuzz::Chance &random)
{
    Head head;
    memcpy(&head, frame.data(), sizeof head);
    Bytes body(frame.begin() + sizeof head, frame.end());
    if (random() % 2) {
        fuzz::disturb(body, random);
    } else {
        const size_t before = body.size();
        body.resize(before + 64);
        body.resize(LLVMFuzzerMutate(body.data(), before, body.size()));
    }
    frame = with_head(head, body);
}

// A few bytes are copied to the GPU.
Bytes copy_to_device(fuzz::Chance &random)
{
    Bytes body;
    wire::Writer w(body);
    const size_t bytes = 1 + random() % 64;
    wire::CopyTarget{recorder::kMemory, bytes, calls::kNoHandle}.write(w);
    body.resize(body.size() + bytes);
    return in_context(static_cast<uint16_t>(CallId::cuMemcpyHtoDAsync_v2), 0, body);
}

// The input comes in another way (Victim::How), meets a driver that fails, or lies about a length.
void change_how(std::vector<Bytes> &frames, size_t at, fuzz::Chance &random)
{
    const unsigned which = random() % 64;
    if (which < 16) frames.insert(frames.begin(), copy_to_device(random));
    Bytes &frame = frames[which < 32 ? 0 : at];
    Head head;
    memcpy(&head, frame.data(), sizeof head);
    if (which < 31)
        head.how ^= kLent;
    else if (which == 31)
        head.how = static_cast<uint8_t>((head.how & ~kFirst) |
                                        (random() % 4 ? kDriverFails : kLookedAhead));
    else
        head.how ^= which < 48 ? kHuge : kLies;
    memcpy(frame.data(), &head, sizeof head);
}

}  // namespace

// Building the table takes a second, which is no input's.
extern "C" int LLVMFuzzerInitialize(int *, char ***)
{
    (void)victim();
    return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t bytes, size_t most, unsigned seed)
{
    fuzz::Chance random(seed);
    std::vector<Bytes> frames = split(data, bytes);
    const size_t at = frames.empty() ? 0 : random() % frames.size();
    switch (frames.empty() ? 0 : random() % 10) {
    case 0:
    case 1: frames.insert(frames.begin() + static_cast<ptrdiff_t>(at), good_frame(random)); break;
    case 2:
        frames[at] = good_frame(random);
        change_inside(frames[at], random);
        break;
    case 3:
        frames[at] = packed(frames[at]);
        if (random() % 2) frames.insert(frames.begin(), agreement());
        break;
    case 4: frames.erase(frames.begin() + static_cast<ptrdiff_t>(at)); break;
    case 5: return LLVMFuzzerMutate(data, bytes, most);
    case 6:
        frames.insert(frames.begin() + static_cast<ptrdiff_t>(at), call_that_waits(random));
        if (random() % 2)
            frames.insert(frames.begin() + static_cast<ptrdiff_t>(at),
                          copy_or_host_function(random));
        break;
    case 7: change_how(frames, at, random); break;
    default: change_inside(frames[at], random);
    }
    return join(frames, data, most);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    Bytes stream;
    uint32_t sequence = 0;
    unsigned how = Victim::plainly;
    bool fails = false;
    for (const Bytes &frame : split(data, bytes)) {
        Head head;
        memcpy(&head, frame.data(), sizeof head);
        const size_t body = frame.size() - sizeof head;
        const bool any = head.how & kAny;
        const auto type = static_cast<uint16_t>(any ? head.type : head.type % calls::kCallCount);
        const auto said = static_cast<uint32_t>(head.how & kLies ? head.bytes : body) |
                          (head.how & kHuge ? 1u << 28 : 0);
        if (!sequence++) {
            fails = (head.how & kFirst) == kDriverFails;
            how = (head.how & kLent ? Victim::lent : 0u) |
                  ((head.how & kFirst) == kLookedAhead ? Victim::looked_ahead : 0u);
        }
        recorder::add(stream, wire::FrameHeader{said, type, static_cast<uint16_t>(head.flags & 7),
                                                head.how & kStored ? 0 : sequence, head.context});
        recorder::add(stream, frame.data() + sizeof head, body);
    }
    test::answer(fails ? CUDA_ERROR_INVALID_CONTEXT : CUDA_SUCCESS);
    (void)victim().takes(stream, how);
    return 0;
}
