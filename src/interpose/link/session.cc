// Sending, receiving, and what happens when the connection goes.
#include "interpose/link/session.h"

#include <pthread.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <unordered_map>
#include <utility>

#include "calls/handles.h"
#include "calls/versions.h"
#include "interpose/base/addresses.h"
#include "interpose/base/background.h"
#include "interpose/base/log.h"
#include "interpose/base/stats.h"
#include "interpose/base/thread_name.h"
#include "interpose/link/lost.h"
#include "interpose/link/packing.h"
#include "interpose/link/waiting.h"
#include "net/transport/pacing.h"

namespace rgpu::interpose {

namespace {

using namespace std::chrono_literals;
using wire::FrameHeader;
using wire::ServerFrame;

constexpr size_t kFlushAt = 32 << 10;          // bytes gathered before they leave by themselves
constexpr size_t kGatheredPayload = 8 << 10;   // what is copied rather than sent by itself
constexpr uint64_t kServerIdleAfter = 20'000;  // ns since the last flush: then send at once
constexpr auto kPumpDelay = 50us;              // how long gathered calls may wait
constexpr auto kPumpPatience = 20ms;           // how long the pump stays awake with nothing to do
constexpr uint64_t kNear =
    200'000;  // ns for an answer: so soon, no link is empty while 1 MiB more is asked for
constexpr uint16_t kNoSuchCall = 0xffff;
constexpr char kNotOurs[] = "the program has closed the connection's descriptor";

uint64_t now_ns()
{
    return static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
}

// What the server does not carry out has no number: it is not asked.
std::vector<uint16_t> match_calls(const wire::Snapshot &theirs)
{
    std::vector<uint16_t> numbers;
    if (theirs.calls.empty()) return numbers;
    std::unordered_map<std::string_view, uint16_t> by_name;
    for (size_t i = 0; i < theirs.calls.size(); i++)
        if (theirs.served[i]) by_name[theirs.calls[i]] = static_cast<uint16_t>(i);
    for (const calls::CallInfo &c : calls::kCalls) {
        auto it = by_name.find(c.symbol);
        numbers.push_back(it == by_name.end() ? kNoSuchCall : it->second);
    }
    return numbers;
}

void say_unserved(calls::CallId id)
{
    static std::array<std::atomic<bool>, calls::kCallCount> said{};
    if (!said[static_cast<size_t>(id)].exchange(true))
        say("%s answers CUDA_ERROR_NOT_SUPPORTED: the GPU server runs another version of rgpu, "
            "which does not carry it out",
            calls::info(id).symbol.data());
}

// A thread of the program that it cancels goes to the end of its call: others wait for what it
// reads, and the server for the rest of what it sends.
class NotCancelled {
public:
    NotCancelled() { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_); }
    ~NotCancelled() { pthread_setcancelstate(before_, nullptr); }
    NotCancelled(const NotCancelled &) = delete;
    NotCancelled &operator=(const NotCancelled &) = delete;

private:
    int before_ = 0;
};

thread_local int waiting;

// Errors after which a context answers every call with the same (cuda.h: "the process must be
// terminated"). Then posting would only hide the error from the call that is to return it.
std::atomic<bool> broken{false};
void note_broken(uint32_t result)
{
    switch (result) {
    case CUDA_ERROR_ECC_UNCORRECTABLE:
    case CUDA_ERROR_NVLINK_UNCORRECTABLE:
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_LAUNCH_TIMEOUT:
    case CUDA_ERROR_ASSERT:
    case CUDA_ERROR_HARDWARE_STACK_ERROR:
    case CUDA_ERROR_ILLEGAL_INSTRUCTION:
    case CUDA_ERROR_MISALIGNED_ADDRESS:
    case CUDA_ERROR_INVALID_ADDRESS_SPACE:
    case CUDA_ERROR_INVALID_PC:
    case CUDA_ERROR_LAUNCH_FAILED: broken.store(true, std::memory_order_relaxed);
    default: break;
    }
}

}  // namespace

bool every_call_waits()
{
    static const bool on = [] {
        const char *v = getenv("RGPU_SYNC");
        return v && *v && *v != '0';
    }();
    return on || waiting || broken.load(std::memory_order_relaxed);
}

Waiting::Waiting(bool wait) : wait_(wait) { waiting += wait; }
Waiting::~Waiting() { waiting -= wait_; }

Session::Session(std::unique_ptr<net::Transport> transport, std::string server, bool one_host)
    : transport_(std::move(transport)),
      laned_(dynamic_cast<net::LanedTransport *>(transport_.get())), server_(std::move(server)),
      one_host_(one_host)
{}

Session::~Session() = default;

void Session::learn(wire::Snapshot snapshot)
{
    snapshot_ = std::move(snapshot);
    readdress(snapshot_, read_addresses());
    call_numbers_ = match_calls(snapshot_);
    server_calls_.insert(snapshot_.calls.begin(), snapshot_.calls.end());
    images.learn(snapshot_);
}

void Session::start_pump()
{
    has_no_pump_ = !start_thread(*this, [this] { pump(); });
}

void Session::set_one_of_several(unsigned index, ContextThere context_there)
{
    index_ = index;
    context_there_ = context_there;
}

bool Session::hears_by_itself()
{
    std::lock_guard lock(send_);
    if (has_no_pump_) has_no_pump_ = !start_thread(*this, [this] { pump(); });
    return !has_no_pump_;
}

void Session::use(std::unique_ptr<Packing> packing)
{
    packing_ = std::move(packing);
    std::lock_guard lock(send_);
    const size_t at = begin(static_cast<calls::CallId>(wire::kPackingCall), calls::kNoHandle, 0);
    wire::Writer(out_).value(wire::Packing());
    constexpr uint32_t bytes = sizeof(wire::Packing);
    memcpy(&out_[at], &bytes, sizeof bytes);
}

void Session::use(std::vector<net::OwnSocket> lanes, bool always)
{
    const auto count = static_cast<uint32_t>(lanes.size());
    const auto id = static_cast<calls::CallId>(wire::kLanesCall);
    Pending p;
    {
        const Asking asking(*this);
        std::lock_guard lock(send_);
        if (state()) return;
        laned_->add(std::move(lanes));
        p.begins_lanes = true;
        put(
            id, calls::kNoHandle, wire::kWantsReply,
            [&](wire::Writer &w) {
                w.value(wire::LanesCall{count, always});
            },
            {}, p, true);
        laned_->begin_sending(always);
    }
    if (wait(p) == CUDA_SUCCESS) note_connections(count + 1);
}

void Session::let_others()
{
    constexpr int kMostYields = 1000;  // they may have lost the processor
    sched_yield();                     // to who has an answer, too
    for (int i = 1; i < kMostYields && asking_.load(std::memory_order_relaxed); i++) sched_yield();
}

void Session::leave_to_parent() { transport_->leave_to_parent(); }

bool Session::server_has(calls::CallId id) const
{
    std::string_view symbol = calls::info(id).symbol;
    if (server_calls_.empty() || server_calls_.contains(symbol)) return true;
    if (!calls::is_per_thread(symbol)) return false;
    symbol.remove_suffix(5);
    return server_calls_.contains(symbol);
}

size_t Session::begin(calls::CallId id, uint32_t context, uint16_t flags)
{
    FrameHeader h;
    h.type = static_cast<uint16_t>(id);
    if (!call_numbers_.empty() && h.type < call_numbers_.size()) h.type = call_numbers_[h.type];
    h.flags = flags;
    h.sequence = ++sequence_;
    sent_.fetch_add(1, std::memory_order_release);
    const ContextThere there = context_there_.load(std::memory_order_relaxed);
    h.value = there && context ? there(context, index_) : context;
    size_t at = out_.size();
    wire::Writer(out_).value(h);
    return at;
}

CUresult Session::commit(calls::CallId id, size_t at, Payload payload, Awaited awaited, bool now)
{
    const bool unknown = !call_numbers_.empty() &&
                         reinterpret_cast<FrameHeader *>(&out_[at])->type == kNoSuchCall;
    if (unknown) {
        out_.resize(at);
        say_unserved(id);
        if (Pending *p = awaited.pending)
            p->reply.result = CUDA_ERROR_NOT_SUPPORTED, p->done = true;
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    auto bytes = static_cast<uint32_t>(out_.size() - at - sizeof(FrameHeader) + payload.bytes);
    memcpy(&out_[at], &bytes, sizeof bytes);
    if (payload.bytes <= kGatheredPayload) {
        wire::Writer(out_).bytes(payload.data, payload.bytes);
        payload = {};
    }
    const bool idle = at == 0 && now_ns() - last_flush_ > kServerIdleAfter;
    const bool later = !now && !idle && !payload.bytes && out_.size() < kFlushAt && !has_no_pump_;
    const bool packed = !later && packs(at, bytes, payload);
    const size_t begun = packed ? begin_parts(at, payload) : 0;
    expect(awaited);

    // From here on nothing throws.
    if (payload.bytes) large_copies.carried(payload.bytes);
    // The pump is for what stays behind here, and for what comes while nobody waits.
    if (pump_asleep_ && (later || pushes_expected())) pump_wanted_.notify_one();
    if (later) return CUDA_SUCCESS;
    return send_or_die([&] {
        if (packed) return send_parts(begun, payload);
        CUresult r = flush_locked();
        return !r && payload.bytes ? send_bytes(payload.data, payload.bytes) : r;
    });
}

// The last step of a call that may throw: where it does, the answer is not awaited.
void Session::expect(Awaited &awaited)
{
    Pending *const p = awaited.pending;
    if (!p) return;
    p->asked = now_ns();
    std::lock_guard lock(receive_);
    pending_[sequence_] = p;
    if (!p->waited) copies_under_way_++;
    (void)awaited.posted.release();
}

// Bytes that have left cannot be taken back: the server would read those of the next call as the
// rest of this one.
template <class Send> CUresult Session::send_or_die(Send &&send)
{
    try {
        return send();
    } catch (...) {
        result_of_exception("sending a call");
        die("this process lacks the memory to send a call");
        return state();
    }
}

CUresult Session::flush_locked()
{
    if (out_.empty()) return CUDA_SUCCESS;
    CUresult r = send_bytes(out_.data(), out_.size());
    out_.clear();
    last_flush_ = now_ns();
    return r;
}

// Whether the frame that begins at `at` goes packed. What is in front of its payload is a part of
// its own.
bool Session::packs(size_t at, size_t bytes, Payload payload)
{
    if (!packing_ || bytes < net::Packer::kLeastPayload ||
        (payload.bytes && out_.size() - at > wire::kPartBytes))
        return false;
    const size_t body = at + sizeof(FrameHeader);
    return payload.bytes ? packing_->out.takes(payload.data, payload.bytes)
                         : packing_->out.takes(&out_[body], out_.size() - body);
}

// Puts the head of the first part in front of the frame that begins at `at`; where in the buffer
// the parts behind it begin. A payload that lies in the buffer, too, is all behind the header.
size_t Session::begin_parts(size_t at, Payload &payload)
{
    const size_t head = payload.bytes ? out_.size() - at : sizeof(FrameHeader);
    const FrameHeader h = packing_->out.head(head);
    auto first = reinterpret_cast<const uint8_t *>(&h);
    out_.insert(out_.begin() + static_cast<ptrdiff_t>(at), first, first + sizeof h);
    const size_t begun = at + sizeof h + head;
    if (!payload.bytes) payload = {&out_[begun], out_.size() - begun};
    return begun;
}

// What was gathered, up to where the parts begin, and then the parts.
CUresult Session::send_parts(size_t begun, Payload payload)
{
    net::Packer &packer = packing_->out;
    const uint64_t taken = packer.taken(), made = packer.made();
    CUresult r = send_bytes(out_.data(), begun);
    for (auto p = static_cast<const uint8_t *>(payload.data); !r && payload.bytes;) {
        const size_t n = std::min<size_t>(payload.bytes, wire::kPartBytes);
        payload.bytes -= n;
        const auto part = packer.part(p, n, !payload.bytes);
        r = send_bytes(part.data(), part.size());
        p += n;
    }
    out_.clear();
    last_flush_ = now_ns();
    count_packed(packer.method(), packer.taken() - taken, packer.made() - made);
    return r;
}

CUresult Session::send_bytes(const void *data, size_t bytes)
{
    const NotCancelled here;
    auto p = static_cast<const char *>(data);
    bool refused = false;  // though there was room: a kernel that is short of memory
    while (bytes) {
        if (CUresult dead = state()) return dead;
        if (!transport_->ours()) {
            die(kNotOurs);
            return state();
        }
        const iovec part{const_cast<char *>(p), bytes};
        ssize_t n = transport_->send(&part, 1, 0);
        if (n > 0) {
            count_sent(static_cast<size_t>(n));
            p += n, bytes -= static_cast<size_t>(n);
            refused = false;
        } else if (n < 0 && errno == EAGAIN) {
            // The server may itself be waiting until we read: do that rather than only wait.
            using enum net::Transport::Event;
            // Where it comes in records, another reader may go on to another descriptor than is
            // looked at here.
            const unsigned there =
                transport_->wait(kData | kRoom, laned_ && laned_->lanes() ? 5 : 1000);
            const bool room = there & kRoom, refused_again = room && refused;
            refused = room;
            if (refused_again) std::this_thread::sleep_for(1ms);
            if (!(there & kData) || (room && !refused_again)) continue;
            std::unique_lock receive(receive_);
            if (reading_) {  // someone else does already
                receive.unlock();
                transport_->wait(kRoom, 1);
            } else if (input_is_there()) {
                read_some(receive);
            }
        } else {
            die(errno == EBADF ? kNotOurs : strerror(errno));
        }
    }
    return state();
}

CUresult Session::wait(Pending &p)
{
    const uint64_t since = now_ns();
    const NotCancelled here;
    std::unique_lock lock(receive_);
    read_until(lock, p.done);
    const uint64_t now = now_ns();
    count_round_trip(now - since);
    if (p.untaken) {  // not what no server was asked
        untaken_--;
        if (now - p.asked < kNear) near_.store(true, std::memory_order_relaxed);
    }
    return p.reply.result;
}

// A server that read the block has the next one already.
CUresult Session::wait_read(Pending &p)
{
    const NotCancelled here;
    std::unique_lock lock(receive_);
    if (!p.done) p.ahead = false;
    if (!p.done && !reading_) behind_sent_ = true;
    read_until(lock, p.done);
    if (p.untaken) untaken_--;
    return p.reply.result;
}

void Session::hear_now()
{
    std::unique_lock lock(receive_);
    if (!reading_ && input_is_there()) read_some(lock);
}

bool Session::has_come(const Ahead &a)
{
    std::lock_guard lock(receive_);
    return a.pending_.done;
}

// No round trip of its own, in most cases.
void Session::wait_ahead(Ahead &a)
{
    const NotCancelled here;
    std::unique_lock lock(receive_);
    read_until(lock, a.pending_.done);
}

CUresult Session::take_ahead(Ahead &a, Reply &reply)
{
    wait_ahead(a);
    reply = std::move(a.pending_.reply);
    return reply.result;
}

CUresult Session::take_ahead(Ahead &a, void *to)
{
    wait_ahead(a);
    if (!a.pending_.reply.result) memcpy(to, a.bytes_.data(), a.bytes_.size());
    return a.pending_.reply.result;
}

// Reads, if nobody does. The others are woken when there is something for them, or nobody to read
// on: not for each part of a large copy.
void Session::read_until(std::unique_lock<std::mutex> &lock, const bool &done)
{
    while (!done) {
        if (reading_) {
            answered_.wait(lock);
            continue;
        }
        read_frame_of(lock);
        if (done || answered_one_) answered_.notify_all();
        if (!done) let_answered(lock);
    }
}

// One frame.
void Session::read_some(std::unique_lock<std::mutex> &lock)
{
    read_frame_of(lock);
    answered_.notify_all();
}

// One thread at a time is here; it lets go of the lock while it waits for bytes.
void Session::read_frame_of(std::unique_lock<std::mutex> &lock)
{
    reading_ = true, answered_one_ = false;
    lock.unlock();
    const bool alive = read_frame_or_die();
    lock.lock();
    reading_ = false;
    if (!alive)
        for (auto &[sequence, p] : pending_) {
            p->reply.result = state();
            p->done = true;
            if (!p->waited) delete p;
        }
    if (!alive)
        pending_.clear(), answered_one_ = true, callbacks_under_way_ = copies_under_way_ = 0;
}

// Who reads megabytes may keep the processor for milliseconds from a thread that has its answer by
// now. Where that one has another processor, this takes no longer than its waking up; where others
// are busy on all of them, one yield may cost the rest of a time slice, and is not repeated for the
// same answers.
void Session::let_answered(std::unique_lock<std::mutex> &lock)
{
    constexpr uint64_t kPatience = 50'000, kSlice = 1'000'000;  // ns
    if (!untaken_ || given_up_ == answers_) return;
    const uint64_t answers = answers_, begin = now_ns();
    lock.unlock();
    do sched_yield();
    while (untaken_ && now_ns() - begin < kPatience);
    lock.lock();
    if (now_ns() - begin > kSlice) given_up_ = answers;
}

bool Session::read_frame_or_die()
{
    const NotCancelled here;
    try {
        return read_frame();
    } catch (...) {
        result_of_exception("what a GPU server sent");
        die("this process lacks the memory for what it sent");
        return false;
    }
}

bool Session::read_frame()
{
    FrameHeader h;
    if (!receive(&h, sizeof h)) return false;
    return packing_ && h.type == static_cast<uint16_t>(ServerFrame::part) ? take_packed(h)
                                                                          : take_frame(h);
}

bool Session::take_packed(FrameHeader h)
{
    net::Unpacker &unpacker = packing_->in;
    const uint64_t came = unpacker.came(), became = unpacker.became();
    if (auto r = unpacker.open(h); !r) return die(r.error().text.c_str()), false;
    if (!receive(&h, sizeof h) || !take_frame(h)) return false;
    if (auto r = unpacker.close(); !r) return die(r.error().text.c_str()), false;
    count_unpacked(unpacker.came() - came, unpacker.became() - became);
    return true;
}

bool Session::take_frame(const FrameHeader &h)
{
    if (h.bytes <= wire::kMaxServerBytes) switch (static_cast<ServerFrame>(h.type)) {
        case ServerFrame::reply: return take_reply(h);
        case ServerFrame::data: return take_data(h);
        case ServerFrame::text: return take_text(h);
        case ServerFrame::callback: return take_callback(h);
        case ServerFrame::link: return take_link(h);
        case ServerFrame::snapshot:
        case ServerFrame::part: break;
        }
    die("the server sent something that is no answer");
    return false;
}

bool Session::receive(void *data, size_t bytes)
{
    if (!packing_ || !packing_->in.inside()) return receive_raw(data, bytes);
    auto r =
        packing_->in.read(data, bytes, [this](void *to, size_t n) { return receive_raw(to, n); });
    if (!r && !r.error().text.empty()) die(r.error().text.c_str());
    return r.has_value();
}

bool Session::receive_raw(void *data, size_t bytes)
{
    auto p = static_cast<uint8_t *>(data);
    // Large blocks go straight to where they belong; small ones are read in bulk.
    const bool direct = bytes >= std::min(transport_->worth_reading(), kInBytes),
               large = direct && bytes > net::kBehindLarge;
    behind_large_ |= large;
    while (bytes) {
        if (size_t have = in_end_ - in_at_) {
            size_t take = std::min(have, bytes);
            memcpy(p, in_.get() + in_at_, take);
            in_at_ += take, p += take, bytes -= take;
            continue;
        }
        in_at_ = in_end_ = 0;
        if (!transport_->ours()) {
            die(kNotOurs);
            return false;
        }
        void *const to = direct ? p : in_.get();
        const bool behind_large = !direct && std::exchange(behind_large_, false);
        const size_t room = direct ? bytes : behind_large ? net::kBehindLarge : kInBytes;
        ssize_t n = -1;
        const auto look = [&] {
            n = transport_->receive(to, room, 0);
            return n >= 0 || errno != EAGAIN;
        };
        const bool behind_sent = !direct && std::exchange(behind_sent_, false);
        Spin &spin = large          ? block_spin_
                     : behind_large ? head_spin_
                     : behind_sent  ? sent_spin_
                                    : spin_;
        if (!spin.until(look)) n = transport_->receive(to, room, -1);
        if (n > 0) count_received(static_cast<size_t>(n));
        if (n <= 0) {
            if (n == 0 || errno == ECONNRESET)
                die(("connection closed by the server: " + why_lost(server_)).c_str());
            else
                die(errno == EBADF ? kNotOurs : strerror(errno));
            return false;
        }
        if (direct) {
            p += n, bytes -= static_cast<size_t>(n);
            // A long rest: what came was all that was there.
            if (packing_)
                packing_->received(static_cast<size_t>(n), bytes >= transport_->worth_reading());
        } else
            in_end_ = static_cast<size_t>(n);
    }
    return true;
}

// With receive_ held.
void Session::answered(Pending &p)
{
    p.done = answered_one_ = true;
    p.untaken = p.waited && !p.ahead;
    untaken_ += p.untaken, answers_ += p.untaken;
}

bool Session::take_reply(const FrameHeader &h)
{
    std::vector<uint8_t> body(h.bytes);
    if (!receive(body.data(), body.size())) return false;
    note_broken(h.value);
    std::lock_guard lock(receive_);
    auto it = pending_.find(h.sequence);
    if (it == pending_.end()) return true;
    if (it->second->begins_lanes) begin_lanes();
    // An error may come in the place of a copy's bytes, success may not.
    if (it->second->copy && it->second->left && h.value == CUDA_SUCCESS) {
        die("the server answered a copy without its bytes");
        return false;
    }
    Pending *const p = it->second;
    pending_.erase(it);
    if (p->news) heard_.fetch_add(1, std::memory_order_release);
    p->reply = {static_cast<CUresult>(h.value), std::move(body)};
    answered(*p);
    if (!p->waited) finish_unasked(p);
    return true;
}

// What has come behind the answer is in records already.
void Session::begin_lanes()
{
    laned_->begin_receiving(in_.get() + in_at_, in_end_ - in_at_);
    in_at_ = in_end_ = 0;
}

bool Session::take_data(const FrameHeader &h)
{
    Pending *p = nullptr;
    {
        std::lock_guard lock(receive_);
        if (auto it = pending_.find(h.sequence); it != pending_.end()) p = it->second;
    }
    if (!p || !p->copy || h.bytes > p->left) {
        die("the server sent data that nobody asked for");
        return false;
    }
    if (p->news) heard_.fetch_add(1, std::memory_order_release);
    if (!receive(p->to, h.bytes)) return false;
    large_copies.carried(h.bytes);
    p->to += h.bytes, p->left -= h.bytes;
    if (h.value) p->reply.result = static_cast<CUresult>(h.value), note_broken(h.value);
    if (!(h.flags & wire::kLast)) return true;
    if (p->left && !p->reply.result) {
        die("the server ended a copy before its end");
        return false;
    }
    std::lock_guard lock(receive_);
    pending_.erase(h.sequence);
    answered(*p);
    if (!p->waited) finish_unasked(p);
    return true;
}

bool Session::take_text(const FrameHeader &h)
{
    std::vector<char> text(h.bytes);
    if (!receive(text.data(), text.size())) return false;
    fwrite(text.data(), 1, text.size(), stdout);
    fflush(stdout);
    return true;
}

bool Session::take_callback(const FrameHeader &h)
{
    uint64_t token;
    if (h.bytes != sizeof token) {
        die("the server sent something that is no callback");
        return false;
    }
    if (!receive(&token, sizeof token)) return false;
    heard_.fetch_add(1, std::memory_order_release);
    expect_fewer_callbacks(1);
    if (const CallbackDue due = callback_due_.load(std::memory_order_acquire))
        due(*this, token, h.value);
    return true;
}

bool Session::take_link(const FrameHeader &h)
{
    uint64_t rate;
    if (!packing_ || h.bytes != sizeof rate) {
        die("the server sent something that is no word about the link");
        return false;
    }
    if (!receive(&rate, sizeof rate)) return false;
    packing_->link_is(rate);
    return true;
}

void Session::expect_callbacks(size_t n, CallbackDue due)
{
    callback_due_.store(due, std::memory_order_release);
    callbacks_under_way_ += n;
}

// One that nobody expected must not make the count huge, which would keep the pump awake for ever.
void Session::expect_fewer_callbacks(size_t fewer)
{
    size_t n = callbacks_under_way_;
    while (!callbacks_under_way_.compare_exchange_weak(n, n - std::min(n, fewer))) {}
}

// With receive_ held: a copy that nobody waits for is over.
void Session::finish_unasked(Pending *p)
{
    delete p;
    copies_under_way_--;
}

void Session::wait_for_copies()
{
    while (copies_under_way() && !state())
        std::this_thread::sleep_for(kPumpDelay);  // the pump takes them
}

bool Session::comes_into(const void *at, size_t bytes, std::optional<uint64_t> but_of)
{
    if (!copies_under_way()) return false;
    const auto begin = static_cast<const uint8_t *>(at), end = begin + bytes;
    std::lock_guard lock(receive_);
    return std::any_of(pending_.begin(), pending_.end(), [&](const auto &entry) {
        const Pending &p = *entry.second;
        return !p.waited && p.begin < end && begin < p.end && p.stream != but_of;
    });
}

uint32_t Session::frames_sent()
{
    std::lock_guard lock(send_);
    return sequence_;
}

bool Session::waited_for()
{
    std::lock_guard lock(receive_);
    return std::any_of(pending_.begin(), pending_.end(), [](const auto &entry) {
        return entry.second->waited && !entry.second->ahead;
    });
}

void Session::die(const char *why)
{
    CUresult alive = CUDA_SUCCESS;
    if (dead_.compare_exchange_strong(alive, CUDA_ERROR_EXTERNAL_DEVICE))
        say("lost the GPU server %s: %s; every CUDA call %sfails from now on", server_.c_str(), why,
            context_there_.load() ? "for its GPUs " : "");
    transport_->shutdown();
}

// With receive_ held and nobody reading: read_some() will not have to wait for the server to say
// something more. Whoever read last may have left frames in the buffer behind its own answer.
bool Session::input_is_there() const
{
    return in_at_ != in_end_ || transport_->wait(net::Transport::kData, 0);
}

// For the pump: reads what has come, if nobody else does, and waits a moment if nothing has. It
// never waits for longer: others' calls stay in the buffer meanwhile, and the server may be waiting
// for one of them.
void Session::take_pushes()
{
    std::unique_lock receive(receive_);
    if (!reading_ && !input_is_there()) {
        receive.unlock();
        const bool more = transport_->wait(net::Transport::kData, 1);
        receive.lock();
        if (!more) return;
    }
    if (reading_ || !pushes_expected()) {
        answered_.wait_for(receive, 1ms);
    } else if (input_is_there()) {  // what poll() saw may be another's by now
        read_some(receive);
        let_answered(receive);
    }
}

// Sends what was gathered and then forgotten, and takes copies that arrive while nobody waits.
void Session::pump()
{
    pthread_setname_np(pthread_self(), kThreadName);
    auto busy_until = std::chrono::steady_clock::now();
    std::unique_lock lock(send_);
    while (!state()) {
        if (!out_.empty()) {
            busy_until = std::chrono::steady_clock::now() + kPumpPatience;
            lock.unlock();
            std::this_thread::sleep_for(kPumpDelay);
            lock.lock();
            flush_locked();
        } else if (pushes_expected()) {
            lock.unlock();
            take_pushes();
            lock.lock();
        } else if (std::chrono::steady_clock::now() < busy_until) {
            lock.unlock();
            std::this_thread::sleep_for(kPumpDelay);
            lock.lock();
        } else {
            pump_asleep_ = true;
            pump_wanted_.wait(lock);
            pump_asleep_ = false;
        }
    }
}

}  // namespace rgpu::interpose
