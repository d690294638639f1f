// The client's end of one connection: one ordered stream of calls, shared by all threads.
//
// Calls are gathered in a buffer that leaves when something must be answered, when it is full, or
// when the server would run dry. Whoever waits for an answer reads for everybody: one waiting
// thread at a time is the reader and hands other threads their answers.
//
// Locks: send_ guards the buffer and the order of calls; receive_ guards the answers. A thread that
// holds send_ may take receive_, never the other way round.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "calls/calls.h"
#include "interpose/base/guard.h"
#include "interpose/link/copy_meter.h"
#include "interpose/link/known_images.h"
#include "net/transport/laned_transport.h"
#include "util/spin.h"
#include "wire/codec.h"
#include "wire/frame.h"
#include "wire/snapshot.h"

namespace rgpu::interpose {

struct Reply {
    CUresult result = CUDA_SUCCESS;
    std::vector<uint8_t> body;
};

// Some bytes of the program's memory that go out behind a frame's body.
struct Payload {
    const void *data = nullptr;
    size_t bytes = 0;
};

class Packing;

// RGPU_SYNC=1: every call waits for its answer, so that an error belongs to the call that returns
// it.
bool every_call_waits();

class Session {
public:
    // Over a connection that stands already and whose server has the same table, until learn() says
    // otherwise; nothing reads by itself, until start_pump(). `one_host`: both ends are on one, and
    // the server reads from a socket.
    Session(std::unique_ptr<net::Transport> transport, std::string server, bool one_host = false);
    ~Session();

    // Before the first call, by the one thread that knows of the session: what the server is, how
    // frames are packed (the server hears of it with the first call), and the thread that sends
    // what was gathered.
    void learn(wire::Snapshot snapshot);
    void use(std::unique_ptr<Packing> packing);
    void start_pump();
    // Counts the bytes of large copies.
    CopyMeter large_copies;

    const wire::Snapshot &snapshot() const { return snapshot_; }

    // Of several servers: which one it is of, and what a context's number means to that one. 0
    // unless it is a context of its own.
    using ContextThere = uint32_t (*)(uint32_t context, unsigned index);
    void set_one_of_several(unsigned index, ContextThere context_there);
    unsigned index() const { return index_; }
    const std::string &server() const { return server_; }

    // CUDA_SUCCESS while the connection stands, else the code that every call answers from then on.
    CUresult state() const { return dead_.load(std::memory_order_acquire); }

    // Ends the connection, for `why`: what a program must not go on with.
    void lose(const char *why) { die(why); }

    // False where host functions could not be called: nobody would hear of them, as there is no
    // thread to be had for that.
    bool hears_by_itself();

    // Whether the server's table has this line, carried out or not; a per-thread line is carried
    // out as its plain one.
    bool server_has(calls::CallId id) const;
    // In the child of a fork: lets go of the connection, which stays the parent's.
    void leave_to_parent();

    // Sends a call that needs no answer (with RGPU_SYNC=1 waits for one all the same). `write` puts
    // its body into a wire::Writer. `context` is the number of the calling thread's current
    // context.
    template <class Write>
    CUresult post(calls::SentCall id, uint32_t context, Write &&write, Payload payload = {});
    // The same for what the server never answers.
    template <class Write>
    CUresult tell(calls::SentCall id, uint32_t context, Write &&write, Payload payload = {});

    // Calls that carry the blocks of something large (blocks.h).
    class Blocks;

    // Sends a call and waits for its answer.
    template <class Write> CUresult ask(calls::SentCall id, uint32_t context, Write &&write,
                                        Reply &reply, Payload payload = {});

    // Sends a copy-to-host call; its bytes arrive at `to`. With `wait` returns when they have.
    // `stream`: for comes_into().
    template <class Write> CUresult copy_out(calls::SentCall id, uint32_t context, Write &&write,
                                             void *to, size_t bytes, bool wait,
                                             uint64_t stream = 0);

    // A question, or a copy to the host of so many bytes, that goes out before anybody waits for
    // it, with whatever is sent next; false: it does not. One at a time for each `Ahead`, which
    // lives as long as the session.
    class Ahead;
    enum class News { no, yes };  // whether its answer counts as heard
    template <class Write> bool ask_ahead(calls::SentCall id, uint32_t context, Write &&write,
                                          Ahead &, size_t bytes = 0, News = News::no);
    // Its answer, or its bytes, when they have come.
    CUresult take_ahead(Ahead &, Reply &);
    CUresult take_ahead(Ahead &, void *to);

    // Reads what has come, if nobody does; and whether that answer is among it.
    void hear_now();
    bool has_come(const Ahead &);

    // How many calls have been sent. Equal counts: nothing was asked of the server in between.
    uint64_t sent() const { return sent_.load(std::memory_order_acquire); }
    // How many frames came, but for text and answers that are no news. Equal counts: nothing was
    // learned from the server in between.
    uint64_t heard() const { return heard_.load(std::memory_order_acquire); }

    // Host functions were put into a stream: their callback frames will come while nobody may be
    // waiting. `due` is called for each by whichever thread reads, which it must not hold up; it is
    // the same for all of a session.
    using CallbackDue = void (*)(Session &, uint64_t token, uint32_t status);
    void expect_callbacks(size_t n, CallbackDue due);
    // So many of them will not: the call that was to put them there was not sent.
    void expect_fewer_callbacks(size_t n);

    // For whoever watches what the program does: frames so far, and whether some thread waits for
    // an answer.
    uint32_t frames_sent();
    bool waited_for();

    // Between parts of something large: lets threads go first that have a question to send, or an
    // answer.
    void let_others();

    // Whether bytes are under way into the program's memory that nobody waits for.
    bool copies_under_way() const { return copies_under_way_ != 0; }

    // Returns when there are none.
    void wait_for_copies();

    // Whether such bytes come to any of these; those of that stream aside.
    bool comes_into(const void *at, size_t bytes, std::optional<uint64_t> but_of = {});

    // Whether something is to come that nobody may be waiting for.
    bool pushes_expected() const { return callbacks_under_way_ || copies_under_way_; }

    // Whether use() can add further connections.
    bool takes_lanes() const { return laned_; }
    // Further connections, in the server's order, carry what is large from now on, `always` or
    // where that is faster; returns when they do both ways, or the session is over.
    void use(std::vector<net::OwnSocket> lanes, bool always);

    KnownImages images;

private:
    // An answer that somebody waits for, or a copy whose bytes are under way.
    struct Pending {
        bool done = false;
        bool waited = true;    // false: a posted copy, nobody waits, owned by the map
        bool copy = false;     // bytes come into the program's memory, and no answer's body
        bool ahead = false;    // no thread waits for it
        bool untaken = false;  // it has come and its thread has not been here since
        bool news = true;      // it may tell the program how far the GPU is
        uint64_t asked = 0;    // when, in nanoseconds
        Reply reply;
        uint8_t *to = nullptr;  // destination of a copy
        size_t left = 0;
        const uint8_t *begin = nullptr, *end = nullptr;  // all of its destination
        uint64_t stream = 0;
        bool begins_lanes = false;  // behind the answer, lanes carry what comes
    };

    // Where a call's answer goes: to nobody, to a Pending whose owner waits until it is done, or to
    // that of a posted copy, which the map owns from the moment at which the call is sent.
    struct Awaited {
        Awaited() = default;
        Awaited(Pending &p) : pending(&p) {}
        Awaited(std::unique_ptr<Pending> p) : pending(p.get()), posted(std::move(p)) {}

        Pending *pending = nullptr;
        std::unique_ptr<Pending> posted;
    };

    // A thread that has a question to send.
    struct Asking {
        explicit Asking(Session &s) : session(s) { session.asking_++; }
        ~Asking() { session.asking_--; }
        Session &session;
    };

    // With send_ held: puts a call into the buffer, and sends it where it does not wait there for
    // others; `now`: it does not. All or nothing: where this throws, the buffer is as it was before
    // and no answer is awaited. Once a byte of the call has left it no longer throws, and what goes
    // wrong ends the connection.
    template <class Write> CUresult put(calls::CallId id, uint32_t context, uint16_t flags,
                                        Write &&write, Payload payload, Awaited awaited, bool now);
    // The steps of put(): the frame's start in the buffer, and what is done when its body is there.
    size_t begin(calls::CallId id, uint32_t context, uint16_t flags);
    CUresult commit(calls::CallId id, size_t at, Payload payload, Awaited awaited, bool now);
    void expect(Awaited &awaited);
    template <class Send> CUresult send_or_die(Send &&send);
    CUresult flush_locked();
    CUresult send_bytes(const void *data, size_t bytes);
    bool packs(size_t at, size_t bytes, Payload payload);
    size_t begin_parts(size_t at, Payload &payload);
    CUresult send_parts(size_t begun, Payload payload);
    void begin_lanes();

    CUresult wait(Pending &p);
    CUresult wait_read(Pending &p);
    void read_until(std::unique_lock<std::mutex> &receive, const bool &done);
    void read_some(std::unique_lock<std::mutex> &receive);
    void read_frame_of(std::unique_lock<std::mutex> &receive);
    void let_answered(std::unique_lock<std::mutex> &);
    bool read_frame();
    bool read_frame_or_die();
    bool take_frame(const wire::FrameHeader &h);
    bool take_packed(wire::FrameHeader h);
    bool take_link(const wire::FrameHeader &h);
    bool receive(void *data, size_t bytes);
    bool receive_raw(void *data, size_t bytes);
    void answered(Pending &);
    bool take_reply(const wire::FrameHeader &h);
    bool take_data(const wire::FrameHeader &h);
    bool take_text(const wire::FrameHeader &h);
    bool take_callback(const wire::FrameHeader &h);
    void die(const char *why);
    void finish_unasked(Pending *);
    bool input_is_there() const;
    void take_pushes();
    void pump();
    void wait_ahead(Ahead &);

    std::unique_ptr<net::Transport> transport_;
    std::unique_ptr<Packing> packing_;  // null: nothing is ever packed
    net::LanedTransport *const laned_;  // transport_, where more can join it
    std::string server_;
    unsigned index_ = 0;
    std::atomic<ContextThere> context_there_{nullptr};  // null: there is one server
    std::atomic<CallbackDue> callback_due_{nullptr};
    wire::Snapshot snapshot_;
    std::vector<uint16_t> call_numbers_;                 // ours -> the server's; empty when equal
    std::unordered_set<std::string_view> server_calls_;  // by name, when not equal
    std::atomic<CUresult> dead_{CUDA_SUCCESS};
    const bool one_host_;  // as far as addresses tell: a tunnel may have its near end there
    std::atomic<bool> near_{false};  // some answer came as soon as from the same host

    std::atomic<int> asking_{0};
    std::mutex send_;
    std::vector<uint8_t> out_;
    uint32_t sequence_ = 0;
    std::atomic<uint64_t> sent_{0}, heard_{0};  // calls since the beginning, and what came
    uint64_t last_flush_ = 0;                   // nanoseconds
    std::condition_variable pump_wanted_;
    bool pump_asleep_ = false;
    bool has_no_pump_ = false;  // no thread was to be had: nothing stays behind in the buffer

    std::mutex receive_;
    std::condition_variable answered_;
    bool reading_ = false;
    bool answered_one_ = false;         // the last frame ended what somebody waits for, or may
    std::atomic<unsigned> untaken_{0};  // answers,
    uint64_t answers_ = 0,
             given_up_ = 0;  // how many there have been, and were when a yield took too long
    std::unordered_map<uint32_t, Pending *> pending_;
    std::atomic<size_t> callbacks_under_way_{0},
        copies_under_way_{0};  // what comes while nobody may be waiting
    // The reader's: within a large block, where the next one's head is to come, where a block that
    // was sent is to be answered, and everywhere else. Looks at a socket that is being filled hold
    // it, and a server that has to wake the reader for a head is late with the block behind it,
    // too.
    static constexpr auto kBetweenBlocks = std::chrono::microseconds(200),
                          kBetweenLooks = std::chrono::microseconds(4);
    Spin block_spin_{0, Spin::kMoment, kBetweenLooks}, head_spin_{0, kBetweenBlocks, kBetweenLooks},
        sent_spin_{0, kBetweenBlocks, kBetweenLooks}, spin_;
    static constexpr size_t kInBytes = 256 << 10;
    bool behind_large_ = false;  // the last block went straight to its destination
    bool behind_sent_ = false;   // whoever reads waits for the answer to a block
    // kInBytes; received and not yet taken is what lies in [in_at_, in_end_).
    std::unique_ptr<uint8_t[]> in_ = std::make_unique_for_overwrite<uint8_t[]>(kInBytes);
    size_t in_at_ = 0, in_end_ = 0;
};

class Session::Ahead {
public:
    Ahead() = default;
    Ahead(const Ahead &) = delete;
    Ahead &operator=(const Ahead &) = delete;

private:
    friend Session;
    std::vector<uint8_t> bytes_;
    Pending pending_;
    bool under_way_ = false;
};

template <class Write>
CUresult Session::post(calls::SentCall id, uint32_t context, Write &&write, Payload payload)
{
    if (!every_call_waits()) return tell(id, context, write, payload);
    Reply reply;
    return ask(id, context, write, reply, payload);
}

template <class Write> CUresult Session::put(calls::CallId id, uint32_t context, uint16_t flags,
                                             Write &&write, Payload payload, Awaited awaited,
                                             bool now)
{
    const size_t at = out_.size();
    Unless committed([&] { out_.resize(at); });
    begin(id, context, flags);
    wire::Writer w(out_);
    write(w);
    const CUresult r = commit(id, at, payload, std::move(awaited), now);
    committed.keep();
    return r;
}

template <class Write>
CUresult Session::tell(calls::SentCall id, uint32_t context, Write &&write, Payload payload)
{
    if (CUresult dead = state()) return dead;
    std::lock_guard lock(send_);
    return put(id, context, 0, write, payload, {}, false);
}

template <class Write> CUresult Session::ask(calls::SentCall id, uint32_t context, Write &&write,
                                             Reply &reply, Payload payload)
{
    if (CUresult dead = state()) return dead;
    Pending p;
    {
        const Asking asking(*this);
        std::lock_guard lock(send_);
        put(id, context, wire::kWantsReply, write, payload, p, true);
    }
    CUresult result = wait(p);
    reply = std::move(p.reply);
    return result;
}

template <class Write> CUresult Session::copy_out(calls::SentCall id, uint32_t context,
                                                  Write &&write, void *to, size_t bytes,
                                                  bool wait_for_it, uint64_t stream)
{
    if (CUresult dead = state()) return dead;
    Pending p;
    p.copy = true;
    p.to = static_cast<uint8_t *>(to);
    p.left = bytes;
    p.begin = p.to, p.end = p.to + bytes;
    p.stream = stream;
    p.waited = wait_for_it;
    Awaited awaited = wait_for_it ? Awaited(p) : Awaited(std::make_unique<Pending>(p));
    {
        const Asking asking(*this);
        std::lock_guard lock(send_);
        const CUresult r = put(id, context,
                               wire::kWantsReply | (wait_for_it ? wire::kCallerWaits : 0), write,
                               {}, std::move(awaited), wait_for_it);
        if (!wait_for_it) return r;
    }
    return wait(p);
}

template <class Write> bool Session::ask_ahead(calls::SentCall id, uint32_t context, Write &&write,
                                               Ahead &a, size_t bytes, News news)
{
    if (state()) return false;
    {
        std::lock_guard receive(receive_);
        if (a.under_way_ && !a.pending_.done) return false;
    }
    a.under_way_ = false;
    a.bytes_.resize(bytes);
    a.pending_ = {};
    a.pending_.ahead = true;
    a.pending_.copy = bytes != 0;
    a.pending_.news = news == News::yes;
    a.pending_.to = a.bytes_.data();
    a.pending_.left = bytes;
    CUresult r;
    {
        std::lock_guard lock(send_);
        r = put(id, context, wire::kWantsReply, write, {}, a.pending_, false);
    }
    a.under_way_ = true;
    if (r) wait_ahead(a);  // whoever reads knows of it
    return r == CUDA_SUCCESS;
}

}  // namespace rgpu::interpose
