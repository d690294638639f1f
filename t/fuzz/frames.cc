// SPDX-License-Identifier: Apache-2.0
// A worker's frames, from a client that holds a lease: under the worker is the driver that notes
// its calls (t/recorder). The input is a row of frames, each a Head and its body. Mutations put in
// frames as our client sends them, and change what is inside one frame.
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "t/fuzz/hand_frames.h"

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

TableCalls &table()
{
    static Wire *wire;
    return fuzz::table_calls(wire);
}

Victim &victim()
{
    static Victim &made = *new Victim(table().objects, table().addresses);
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

Bytes good_frame(fuzz::Chance &random)
{
    const auto flags = static_cast<uint8_t>(random() % 8);
    if (random() % 4 == 0) {
        const fuzz::Made made = fuzz::hand_frame(table(), random);
        const Frame &any = table().made.front().call;
        return with_head({made.type, flags, made.in_table ? uint8_t{0} : kAny, 0,
                          static_cast<uint16_t>(any.header.value)},
                         made.body);
    }
    const Frame &frame = table().made[random() % table().made.size()].call;
    return with_head({frame.header.type,
                      random() % 8 ? static_cast<uint8_t>(frame.header.flags) : flags, 0, 0,
                      static_cast<uint16_t>(frame.header.value)},
                     frame.body);
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

}  // namespace

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
    default: change_inside(frames[at], random);
    }
    return join(frames, data, most);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    Bytes stream;
    uint32_t sequence = 0;
    for (const Bytes &frame : split(data, bytes)) {
        Head head;
        memcpy(&head, frame.data(), sizeof head);
        const size_t body = frame.size() - sizeof head;
        const bool any = head.how & kAny;
        const auto type = static_cast<uint16_t>(any ? head.type : head.type % calls::kCallCount);
        const auto said = static_cast<uint32_t>(head.how & kLies ? head.bytes : body);
        ++sequence;
        recorder::add(stream, wire::FrameHeader{said, type, static_cast<uint16_t>(head.flags & 7),
                                                head.how & kStored ? 0 : sequence, head.context});
        recorder::add(stream, frame.data() + sizeof head, body);
    }
    (void)victim().takes(stream);
    return 0;
}
