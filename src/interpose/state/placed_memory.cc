// SPDX-License-Identifier: Apache-2.0
#include "interpose/state/placed_memory.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <new>
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

// What is to be put somewhere. Of a pool: whole pages.
struct Wanted {
    int device = 0;  // the server's number of it
    HandleId context = calls::kNoHandle;
    size_t bytes = 0;
    bool pooled = false;
};

// What one server has left to this client.
class Part : Band::Pages {
public:
    // Nothing where the server is to place the memory.
    std::optional<CUresult> allocate(ServerSession &, const Wanted &, uint64_t &address);
    std::optional<CUresult> take_piece(ServerSession &, const Wanted &, uint64_t &address);
    void give_pages(ServerSession &, const Wanted &, uint64_t address);
    void watch_pools(ServerSession &, const PoolCalls &);
    bool has(CUdeviceptr base);
    void freed(ServerSession &, CUdeviceptr base, bool at_once);
    void forget_context(ServerSession &, HandleId);
    // Gives back the pages that were not used since it was called last. Whether to call it again.
    bool look(ServerSession &);
    // Gives back all pages that are not used, of pools too. Whether there were any.
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

    CUresult choose(const Wanted &, uint64_t &address);
    std::optional<CUresult> choose_or_ask(ServerSession &, const Wanted &, uint64_t &address);
    bool is_piece(uint64_t address, size_t bytes);
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
    bool pools_again_ = false;
    unsigned looks_ = 0;  // in vain
    uint64_t begin_ = 0;
    std::unique_ptr<Band> band_;  // null: nothing was asked yet
    std::map<int, Credit> credit_;
    Band::Lives leaving_;                  // freed, and perhaps still there on the server
    std::map<uint64_t, uint64_t> pieces_;  // of pools, bytes by their beginning
    std::atomic<const PoolCalls *> pools_{nullptr};
};

bool make_room(ServerSession &, uint32_t context, unsigned times);

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

void Part::take(uint64_t, uint64_t bytes, int device)
{
    credit_.at(device).unused += bytes / kPage;
}

// With the credit that there is.
CUresult Part::choose(const Wanted &w, uint64_t &address)
{
    std::lock_guard lock(mutex_);
    if (is_placed_by_server_) return CUDA_ERROR_NOT_SUPPORTED;
    if (!band_) return CUDA_ERROR_OUT_OF_MEMORY;
    return w.pooled ? band_->add_pages(w.device, w.bytes, address)
                    : band_->allocate(w.device, w.context, w.bytes, address);
}

std::optional<CUresult> Part::choose_or_ask(ServerSession &s, const Wanted &w, uint64_t &address)
{
    const uint64_t needed = Band::rounded(w.bytes, kPage) / kPage;
    std::lock_guard asking(asking_);
    for (unsigned tries = 0;; tries++) {
        CUresult r = choose(w, address);  // another thread may have asked
        if (!r) return CUDA_SUCCESS;
        if (r != CUDA_ERROR_OUT_OF_MEMORY) return {};
        uint64_t unused;
        {
            std::lock_guard lock(mutex_);
            unused = credit_[w.device].unused;
        }
        const uint64_t lacking = needed - std::min(needed, unused);
        wire::CreditAnswer answer;
        r = ask(s, w.device, w.context, std::max<uint64_t>(lacking, 1) * kPage, answer);
        if (r && r != CUDA_ERROR_OUT_OF_MEMORY) return {};
        if (!choose(w, address)) return CUDA_SUCCESS;
        const PoolCalls *const pools = pools_;
        if (r && pools && pools->give_back(s)) continue;
        if ((r && !answer.others) || tries == kMostTries) return CUDA_ERROR_OUT_OF_MEMORY;
        if (r) std::this_thread::sleep_for(kBetweenTries);
    }
}

std::optional<CUresult> Part::allocate(ServerSession &s, const Wanted &wanted, uint64_t &address)
{
    if (const CUresult r = choose(wanted, address)) {
        if (r != CUDA_ERROR_OUT_OF_MEMORY || !s.hears_by_itself()) return {};
        const auto asked = choose_or_ask(s, wanted, address);
        if (!asked || *asked) return asked;
    }
    Unless sent([&] {
        if (!wanted.pooled) return freed(s, address, true);
        std::lock_guard lock(mutex_);
        band_->drop_pages(wanted.device, address, wanted.bytes);
    });
    const auto context = wanted.pooled ? calls::kNoHandle : wanted.context;
    const CUresult r = s.tell(kCall, context, [&](wire::Writer &w) {
        w.value(wanted.pooled ? PlacedStep::take_pages : PlacedStep::allocate);
        if (wanted.pooled) w.value(wanted.device);
        w.value(address), w.value(uint64_t{wanted.bytes});
    });
    sent.keep();
    return r;
}

// --- what pools consist of

// Whether a server may say that a piece lies there. With the mutex held.
bool Part::is_piece(uint64_t address, size_t bytes)
{
    const uint64_t end = address + bytes;
    const auto next = pieces_.lower_bound(address);
    return address % kPage == 0 && end > address && (next == pieces_.end() || next->first >= end) &&
           (next == pieces_.begin() || std::prev(next)->first + std::prev(next)->second <= address);
}

std::optional<CUresult> Part::take_piece(ServerSession &s, const Wanted &wanted, uint64_t &address)
{
    std::map<uint64_t, uint64_t> piece;
    piece.emplace(0, wanted.bytes);
    for (unsigned tries = 0;; tries++) {
        Reply reply;
        const CUresult r = s.ask(
            kCall, calls::kNoHandle,
            [&](wire::Writer &w) {
                w.value(PlacedStep::take_piece), w.value(wanted.device),
                    w.value(uint64_t{wanted.bytes});
            },
            reply);
        if (s.state()) return s.state();
        if (r == CUDA_ERROR_OUT_OF_MEMORY && make_room(s, wanted.context, tries)) continue;
        if (r) return r == CUDA_ERROR_OUT_OF_MEMORY ? std::optional(r) : std::nullopt;
        wire::Reader answer(reply.body.data(), reply.body.size());
        address = answer.value<uint64_t>();
        const uint64_t first = wire::band_begin(s.index());
        std::lock_guard lock(mutex_);
        if (answer.at_end() && address >= first && address - first < wire::kBandBytes &&
            is_piece(address, wanted.bytes)) {
            auto node = piece.extract(piece.begin());
            node.key() = address;
            pieces_.insert(std::move(node));
            return CUDA_SUCCESS;
        }
        s.lose("the server places a piece as none does");
        return s.state();
    }
}

void Part::give_pages(ServerSession &s, const Wanted &wanted, uint64_t address)
{
    s.tell(kCall, calls::kNoHandle, [&](wire::Writer &w) {
        w.value(PlacedStep::give_pages), w.value(address), w.value(uint64_t{wanted.bytes});
    });
    std::unique_lock lock(mutex_);
    if (!pieces_.erase(address)) band_->drop_pages(wanted.device, address, wanted.bytes);
    watch(s, lock);
}

void Part::watch_pools(ServerSession &s, const PoolCalls &calls)
{
    pools_ = &calls;
    std::unique_lock lock(mutex_);
    pools_again_ = true;
    watch(s, lock);
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
    if (!band_) return;
    if (!at_once) {
        if (!band_->move_to(leaving_, base)) return;
    } else if (const auto block = band_->forget(base)) {
        band_->release(*block);
    } else {
        return;
    }
    watch(s, lock);
}

void Part::forget_context(ServerSession &s, HandleId context)
{
    std::unique_lock lock(mutex_);
    if (!band_) return;
    band_->move_all_to(leaving_, context);
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
        credit_.try_emplace(device);
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
    Unless learned([&] {
        if (answer.bytes) tell_given_back(s, device, answer.bytes / kPage);
    });
    if (!learn(s, reply, device, asked, answer)) s.lose("the server gives credit as none does");
    learned.keep();
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
        band_->release(Band::block_of(*block));
        leaving_.erase(block);
        looks_ = 0;
    }
    if (!answer.bytes) return true;
    credit_.at(device).unused += answer.bytes / kPage;
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
    size_t told = 0;
    Unless all_told([&] {
        std::lock_guard lock(mutex_);
        for (; told < given.size(); told++)
            credit_.at(given[told].first).unused += given[told].second;
    });
    for (; told < given.size(); told++) tell_given_back(s, given[told].first, given[told].second);
    all_told.keep();
    return !given.empty();
}

bool Part::look(ServerSession &s)
{
    const PoolCalls *const pools = pools_;
    {
        std::lock_guard lock(mutex_);
        pools_again_ = false;
    }
    bool more = false;
    try {
        more = pools && pools->look(s);
        ask_for_leaving(s);
        give_back(s, [](const Credit &c) { return std::min(c.lowest, c.unused); });
    } catch (const std::bad_alloc &) {
        return true;  // another time
    }
    std::lock_guard lock(mutex_);
    watched_ = more || pools_again_ || (!leaving_.empty() && looks_ < kMostLooks) ||
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
    if (const PoolCalls *const pools = pools_) pools->give_back(s);
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
    const Wanted wanted{to_wire(current_device()), current_context(), bytes, false};
    uint64_t address = 0;
    const auto r = part_of(s->index()).allocate(*s, wanted, address);
    if (r) *out = address;
    return r;
}

std::optional<CUresult> take_pages(ServerSession &s, int device, size_t bytes, uint64_t &address)
{
    const Wanted wanted{device, current_context(), bytes, true};
    Part &part = part_of(s.index());
    return bytes > wire::kMostPlaced ? part.take_piece(s, wanted, address)
                                     : part.allocate(s, wanted, address);
}

void give_pages(ServerSession &s, int device, uint64_t address, size_t bytes)
{
    part_of(s.index()).give_pages(s, {device, calls::kNoHandle, bytes, true}, address);
}

void watch_pools(ServerSession &s, const PoolCalls &calls)
{
    part_of(s.index()).watch_pools(s, calls);
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
