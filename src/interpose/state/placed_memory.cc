// SPDX-License-Identifier: Apache-2.0
#include "interpose/state/placed_memory.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "interpose/base/guard.h"
#include "interpose/link/waiting.h"
#include "interpose/state/capture.h"
#include "interpose/state/client.h"
#include "interpose/state/contexts.h"
#include "interpose/state/servers.h"
#include "wire/band.h"
#include "wire/bands.h"

namespace rgpu::interpose::placed {

namespace {

using namespace std::chrono_literals;
using wire::Band;
using wire::PlacedStep;

constexpr auto kCall = static_cast<calls::CallId>(wire::kPlacedCall);
constexpr uint64_t kPage = Band::kPage;
constexpr int kAnyDevice = -1;

// How often in a row the server is asked in vain whether freed memory is gone: after that, only
// with the next question for credit.
constexpr unsigned kMostLooks = 100;

// While others have credit that they do not use: it comes back to the server before long.
constexpr auto kBetweenTries = 10ms;
constexpr unsigned kMostTries = 40;

// What one server has left to this client.
class Part : Band::Pages {
public:
    // Nothing where the server is to place the memory.
    std::optional<CUresult> allocate(ServerSession &, CUdeviceptr &, size_t bytes);
    bool has(CUdeviceptr base);
    void freed(ServerSession &, CUdeviceptr base, bool at_once);
    void forget_context(ServerSession &, HandleId);
    // Gives back the pages that were not used since it was called last. Whether to call it again.
    bool look(ServerSession &);
    // Gives back all pages that are not used. Whether there were any.
    bool give_back_all(ServerSession &);
    // Whether other processes of the lease have pages that they do not use.
    bool others_have_some(ServerSession &, HandleId context);

private:
    struct Credit {
        uint64_t unused = 0;  // pages
        uint64_t lowest = 0;  // and the fewest since look()
    };

    CUresult put(uint64_t address, uint64_t bytes, int device) override;
    void take(uint64_t address, uint64_t bytes, int device) override;

    CUresult choose(size_t bytes, uint64_t &address);
    std::optional<CUresult> choose_or_ask(ServerSession &, size_t bytes, uint64_t &address);
    CUresult ask(ServerSession &, int device, HandleId context, uint64_t lacking,
                 wire::CreditAnswer &);
    bool learn(ServerSession &, const Reply &, int device, const std::vector<uint64_t> &asked,
               wire::CreditAnswer &);
    void watch(ServerSession &, std::unique_lock<std::mutex> &);
    void ask_for_leaving(ServerSession &);
    void tell_given_back(ServerSession &, int device, uint64_t pages);
    template <class HowMany> bool give_back(ServerSession &, HowMany how_many);

    std::mutex asking_;  // one thread asks at a time; taken before the other one
    std::mutex mutex_;
    bool is_placed_by_server_ = false;
    bool watched_ = false;  // look() will be called
    unsigned looks_ = 0;    // in vain
    uint64_t begin_ = 0;
    std::unique_ptr<Band> band_;  // null: nothing was asked yet
    std::map<int, Credit> credit_;
    std::map<uint64_t, Band::Block> leaving_;  // freed, and perhaps still there on the server
};

Part &part_of(unsigned server)
{
    return client_part<EachServer<Part>>(interpose::Part::placed_memory).at(server);
}

CUresult Part::put(uint64_t, uint64_t bytes, int device)
{
    Credit &c = credit_[device];
    if (bytes / kPage > c.unused) return CUDA_ERROR_OUT_OF_MEMORY;
    c.unused -= bytes / kPage;
    c.lowest = std::min(c.lowest, c.unused);
    return CUDA_SUCCESS;
}

void Part::take(uint64_t, uint64_t bytes, int device) { credit_[device].unused += bytes / kPage; }

// With the credit that there is.
CUresult Part::choose(size_t bytes, uint64_t &address)
{
    std::lock_guard lock(mutex_);
    if (is_placed_by_server_) return CUDA_ERROR_NOT_SUPPORTED;
    if (!band_) return CUDA_ERROR_OUT_OF_MEMORY;
    return band_->allocate(to_wire(current_device()), current_context(), bytes, address);
}

std::optional<CUresult> Part::choose_or_ask(ServerSession &s, size_t bytes, uint64_t &address)
{
    const int device = to_wire(current_device());
    const uint64_t needed = Band::rounded(bytes, kPage) / kPage;
    std::lock_guard asking(asking_);
    for (unsigned tries = 0;; tries++) {
        CUresult r = choose(bytes, address);  // another thread may have asked
        if (!r) return CUDA_SUCCESS;
        if (r != CUDA_ERROR_OUT_OF_MEMORY) return {};
        uint64_t unused;
        {
            std::lock_guard lock(mutex_);
            unused = credit_[device].unused;
        }
        const uint64_t lacking = needed - std::min(needed, unused);
        wire::CreditAnswer answer;
        r = ask(s, device, current_context(), std::max<uint64_t>(lacking, 1) * kPage, answer);
        if (r && r != CUDA_ERROR_OUT_OF_MEMORY) return {};
        if (!choose(bytes, address)) return CUDA_SUCCESS;
        if ((r && !answer.others) || tries == kMostTries) return CUDA_ERROR_OUT_OF_MEMORY;
        if (r) std::this_thread::sleep_for(kBetweenTries);
    }
}

std::optional<CUresult> Part::allocate(ServerSession &s, CUdeviceptr &out, size_t bytes)
{
    uint64_t address = 0;
    if (const CUresult r = choose(bytes, address)) {
        if (r != CUDA_ERROR_OUT_OF_MEMORY || !s.hears_by_itself()) return {};
        const auto asked = choose_or_ask(s, bytes, address);
        if (!asked || *asked) return asked;
    }
    Unless sent([&] { freed(s, address, true); });
    const CUresult r = s.tell(kCall, current_context(), [&](wire::Writer &w) {
        w.value(PlacedStep::allocate), w.value(address), w.value(uint64_t{bytes});
    });
    sent.keep();
    out = address;
    return r;
}

// --- what is freed

bool Part::has(CUdeviceptr base)
{
    std::lock_guard lock(mutex_);
    return band_ && base - begin_ < wire::kPlacedBytes;
}

void Part::freed(ServerSession &s, CUdeviceptr base, bool at_once)
{
    std::unique_lock lock(mutex_);
    const auto block = band_ ? band_->forget(base) : std::nullopt;
    if (!block) return;
    if (at_once)
        band_->release(*block);
    else
        leaving_[base] = *block;
    watch(s, lock);
}

void Part::forget_context(ServerSession &s, HandleId context)
{
    std::unique_lock lock(mutex_);
    if (!band_) return;
    for (const Band::Block &block : band_->forget_all(context)) leaving_[block.base] = block;
    watch(s, lock);
}

// --- credit

// The answer to a question for pages that are lacking, if any; and what it says of memory that was
// freed.
CUresult Part::ask(ServerSession &s, int device, HandleId context, uint64_t lacking,
                   wire::CreditAnswer &answer)
{
    std::vector<uint64_t> asked;
    {
        std::lock_guard lock(mutex_);
        for (auto it = leaving_.begin(); it != leaving_.end() && asked.size() < wire::kMostAsked;
             ++it)
            asked.push_back(it->first);
    }
    Reply reply;
    const CUresult r = s.ask(
        kCall, context,
        [&](wire::Writer &w) {
            w.value(PlacedStep::credit);
            w.value(wire::CreditRequest{device, static_cast<uint32_t>(asked.size()), lacking});
            w.bytes(asked.data(), asked.size() * sizeof asked[0]);
        },
        reply);
    if (s.state()) return s.state();
    if (!learn(s, reply, device, asked, answer)) s.lose("the server gives credit as none does");
    if (r == CUDA_ERROR_NOT_SUPPORTED) {
        std::lock_guard lock(mutex_);
        is_placed_by_server_ = true;
    }
    return r;
}

bool Part::learn(ServerSession &s, const Reply &reply, int device,
                 const std::vector<uint64_t> &asked, wire::CreditAnswer &answer)
{
    // Another server's band would make pointers of both equal.
    const uint64_t first = wire::band_begin(s.index());
    wire::Reader r(reply.body.data(), reply.body.size());
    if (reply.result == CUDA_ERROR_NOT_SUPPORTED) return true;
    answer = r.value<wire::CreditAnswer>();
    if (!r.ok() || r.left() != answer.answers) return false;
    if (!answer.begin) return !answer.bytes && !answer.answers;
    if (answer.begin < first || answer.begin - first > wire::kBandBytes - wire::kPlacedBytes ||
        answer.begin % kPage || answer.bytes % kPage || answer.bytes > wire::kBandBytes ||
        answer.answers != asked.size())
        return false;
    std::unique_lock lock(mutex_);
    if (band_ && answer.begin != begin_) return false;
    begin_ = answer.begin;
    if (!band_) band_.reset(new Band(begin_, wire::kPlacedBytes, *this));
    for (const uint64_t base : asked) {
        const auto block = leaving_.find(base);
        if (!r.value<uint8_t>() || block == leaving_.end()) continue;
        band_->release(block->second);
        leaving_.erase(block);
        looks_ = 0;
    }
    if (!answer.bytes) return true;
    credit_[device].unused += answer.bytes / kPage;
    watch(s, lock);
    return true;
}

void Part::tell_given_back(ServerSession &s, int device, uint64_t pages)
{
    s.tell(kCall, calls::kNoHandle, [&](wire::Writer &w) {
        w.value(PlacedStep::give_back), w.value(device), w.value(pages * kPage);
    });
}

// `how_many` pages of a credit. Whether there were any.
template <class HowMany> bool Part::give_back(ServerSession &s, HowMany how_many)
{
    std::vector<std::pair<int, uint64_t>> given;
    {
        std::lock_guard lock(mutex_);
        if (!band_) return false;
        band_->drop_spares();
        given.reserve(credit_.size());
        for (auto &[device, c] : credit_) {
            const uint64_t pages = how_many(c);
            c.unused -= pages;
            c.lowest = c.unused;
            if (pages) given.emplace_back(device, pages);
        }
    }
    for (const auto &[device, pages] : given) tell_given_back(s, device, pages);
    return !given.empty();
}

bool Part::look(ServerSession &s)
{
    ask_for_leaving(s);
    give_back(s, [](const Credit &c) { return std::min(c.lowest, c.unused); });
    std::lock_guard lock(mutex_);
    watched_ = (!leaving_.empty() && looks_ < kMostLooks) ||
               std::any_of(credit_.begin(), credit_.end(),
                           [](const auto &entry) { return entry.second.unused != 0; });
    return watched_;
}

// What is gone is credit, and can go back.
void Part::ask_for_leaving(ServerSession &s)
{
    {
        std::lock_guard lock(mutex_);
        if (leaving_.empty() || looks_++ >= kMostLooks) return;
    }
    const std::unique_lock asking(asking_, std::try_to_lock);
    wire::CreditAnswer answer;
    if (asking) ask(s, kAnyDevice, calls::kNoHandle, 0, answer);
}

bool Part::give_back_all(ServerSession &s)
{
    return give_back(s, [](const Credit &c) { return c.unused; });
}

void Part::watch(ServerSession &session, std::unique_lock<std::mutex> &lock)
{
    looks_ = 0;
    if (std::exchange(watched_, true)) return;
    lock.unlock();
    session.look_later([](ServerSession &s) { return part_of(s.index()).look(s); });
}

bool Part::others_have_some(ServerSession &s, HandleId context)
{
    const CUdevice d = context ? Handles::get().at(context)->device : kAnyDevice;
    std::lock_guard asking(asking_);
    wire::CreditAnswer answer;
    return !ask(s, d < 0 ? kAnyDevice : to_wire(d), context, 0, answer) && answer.others;
}

// A call lacks memory: what is not used here may be what it needs, and then what others do not use.
bool make_room(ServerSession &s, uint32_t context, unsigned times)
{
    Part &part = part_of(s.index());
    if (part.give_back_all(s)) return true;
    if (times >= kMostTries || !part.others_have_some(s, context)) return false;
    std::this_thread::sleep_for(kBetweenTries);
    return true;
}

}  // namespace

void begin(ServerSession &s)
{
    if (s.takes_placed()) s.set_make_room(make_room);
}

std::optional<CUresult> allocate(CUdeviceptr *out, size_t bytes)
{
    ServerSession *const s = session();
    if (!s || !s->takes_placed() || !out || !bytes || bytes > wire::kMostPlaced ||
        every_call_waits() || any_capture() || context_state())
        return {};
    return part_of(s->index()).allocate(*s, *out, bytes);
}

bool has(CUdeviceptr base)
{
    ServerSession *const s = session();
    return s && s->takes_placed() && part_of(s->index()).has(base);
}

void freed(CUdeviceptr base, bool at_once)
{
    if (ServerSession *const s = session()) part_of(s->index()).freed(*s, base, at_once);
}

void forget_context(HandleId context)
{
    ServerSession *const s = session();
    if (s && s->takes_placed()) part_of(s->index()).forget_context(*s, context);
}

}  // namespace rgpu::interpose::placed
