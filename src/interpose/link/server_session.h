// SPDX-License-Identifier: Apache-2.0
// The client's end of one connection: one ordered stream of calls, shared by all threads.
//
// What calls see of it. The parts, each with its own contract: the call buffer sends
// (call_buffer.h), one waiting thread at a time reads for all (answers.h, frame_reader.h), and the
// pump does both for calls that nobody waits for (pump.h).
//
// Owns the connection and all that belongs to it. A session is never deleted while the program
// makes calls, and connect.h never does so.
//
// Threads: any, but for what says "before the first call". Failure: every call answers state() once
// the connection is lost; none throws but for lack of memory, and then it was not sent.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "calls/calls.h"
#include "interpose/link/ahead.h"
#include "interpose/link/announcements.h"
#include "interpose/link/answers.h"
#include "interpose/link/call_buffer.h"
#include "interpose/link/connection.h"
#include "interpose/link/copy_meter.h"
#include "interpose/link/frame_reader.h"
#include "interpose/link/known_images.h"
#include "interpose/link/packing.h"
#include "interpose/link/pump.h"
#include "interpose/link/waiting.h"
#include "wire/snapshot.h"

namespace rgpu::interpose {

class ServerSession : Announcements::HostFunctions {
public:
    // Over a connection that stands already and whose server has the same table, until learn() says
    // otherwise; nothing reads by itself, until start_pump(). `one_host`: both ends are on one, and
    // the server reads from a socket.
    ServerSession(std::unique_ptr<net::Transport> transport, std::string server,
                  bool one_host = false);

    // Before the first call, by the one thread that knows of the session: what the server is, how
    // frames are packed (the server hears of it with the first call), and the thread that sends
    // what was gathered.
    void learn(wire::Snapshot snapshot);
    void use(std::unique_ptr<Packing> packing);
    // The same for a forecast of the process's run. It asks the server a few things, to see how far
    // it is; `by_lanes`: the server knows of lanes, and so has an answer.
    void use(std::unique_ptr<Forecaster> forecaster, bool by_lanes);
    void start_pump() { pump_.start(); }

    const wire::Snapshot &snapshot() const { return snapshot_; }
    // Of the snapshot.
    net::Clock::duration age() const { return net::Clock::now() - learnt_at_; }

    // Of several servers: which one it is of, and what a context's number means to that one.
    void set_one_of_several(unsigned index, CallBuffer::ContextThere context_there);
    unsigned index() const { return calls_.index(); }
    const std::string &server() const { return connection_.server(); }

    // CUDA_SUCCESS while the connection stands, else the code that every call answers from then on.
    CUresult state() const { return connection_.state(); }
    // Ends the connection, for `why`: what a program must not go on with.
    void lose(const char *why) { connection_.lose(why); }
    // In the child of a fork: lets go of the connection, which stays the parent's.
    void leave_to_parent() { connection_.transport().leave_to_parent(); }

    // Whether the server's table has this line, carried out or not.
    bool server_has(calls::CallId id) const { return calls_.server_has(id); }
    // False where host functions could not be called: nobody would hear of them, as there is no
    // thread to be had for that.
    bool hears_by_itself() { return pump_.ensure(); }

    // Sends a call that needs no answer, and waits for one all the same where every_call_waits().
    // `write` puts its body into a wire::Writer. `context` is the number of the calling thread's
    // current context.
    template <class Write>
    CUresult post(calls::SentCall id, uint32_t context, Write &&write, Payload payload = {});
    // The same for what the server never answers.
    template <class Write>
    CUresult tell(calls::SentCall id, uint32_t context, Write &&write, Payload payload = {});
    // Sends a call and waits for its answer.
    template <class Write> CUresult ask(calls::SentCall id, uint32_t context, Write &&write,
                                        Reply &reply, Payload payload = {});
    // Sends a copy-to-host call; its bytes arrive at `to`. With `wait` returns when they have.
    // `stream`: for comes_into().
    template <class Write> CUresult copy_out(calls::SentCall id, uint32_t context, Write &&write,
                                             void *to, size_t bytes, bool wait,
                                             uint64_t stream = 0);
    // A question, or a copy to the host of so many bytes, that goes out with whatever is sent next;
    // false: it does not.
    template <class Write> bool ask_ahead(calls::SentCall id, uint32_t context, Write &&write,
                                          Ahead &, size_t bytes = 0, News = News::no);
    // Its answer, or its bytes, when they have come; and whether they have.
    CUresult take_ahead(Ahead &, Reply &);
    CUresult take_ahead(Ahead &, void *to);
    bool has_come(const Ahead &a) { return answers_.is_done(a.answer()); }

    // A block of something large (blocks.h): posted, and its answer awaited when it suits.
    template <class Write> CUresult post_block(calls::SentCall id, uint32_t context, Write &&write,
                                               Payload payload, Answer &answer);
    CUresult wait_block(Answer &answer) { return answers_.wait_block(answer); }
    // Whether the server is on this host, as far as addresses and the time for an answer tell (a
    // tunnel may have its near end there), and reads from a socket.
    bool is_near() const { return one_host_ && answers_.are_near(); }
    // Between such blocks: lets threads go first that have a question to send, or an answer.
    void let_others() { calls_.let_others(); }
    // Counts the bytes of large copies.
    CopyMeter &large_copies() { return large_copies_; }

    // Reads what has come, if nobody does.
    void hear_now() { answers_.read_if_nobody_does(); }
    // How many calls have been sent, but for those on where memory lies. Equal counts: nothing was
    // asked of the server in between.
    uint64_t sent() const { return calls_.sent(); }
    // How many frames came, but for text and answers that are no news. Equal counts: nothing was
    // learned from the server in between.
    uint64_t heard() const { return answers_.heard(); }

    // Host functions were put into a stream: their callback frames will come while nobody may be
    // waiting. `due` is called for each by whichever thread reads, which it must not hold up; it is
    // the same for all of a session.
    using CallbackDue = void (*)(ServerSession &, uint64_t token, uint32_t status);
    void expect_callbacks(size_t n, CallbackDue due);
    // So many of them will not: the call that was to put them there was not sent.
    void expect_fewer_callbacks(size_t n) { announcements_.expect_fewer(n); }

    // Has `look` called in the background in a moment (Pump::kLookDelay), and again as long as it
    // returns true. The same for all of a session.
    void look_later(bool (*look)(ServerSession &))
    {
        pump_.look_later([this, look] { return look(*this); });
    }
    // Called when the server answers a call of ask() that it lacks memory, with how often it was
    // called for that before: whether there may be some now, so that the call is made again.
    using MakeRoom = bool (*)(ServerSession &, uint32_t context, unsigned times);
    void set_make_room(MakeRoom make_room) { make_room_ = make_room; }

    // For whoever watches what the program does: frames so far, and whether some thread waits for
    // an answer.
    uint32_t frames_sent() { return calls_.frames(); }
    bool waited_for() { return answers_.anybody_waits(); }

    // Whether bytes are under way into the program's memory that nobody waits for; returns when
    // there are none; and whether such bytes come to any of these, those of that stream aside.
    bool copies_under_way() const { return answers_.copies_under_way(); }
    void wait_for_copies();
    bool comes_into(const void *at, size_t bytes, std::optional<uint64_t> but_of = {})
    {
        return answers_.comes_into(at, bytes, but_of);
    }

    // Whether something is to come that nobody may be waiting for: such copies, host functions.
    bool pushes_expected() const { return answers_.pushes_expected(); }

    // Whether the server knows memory at addresses that are chosen here, and pools of it. Before
    // the first call.
    void set_takes_placed(bool takes, bool pools)
    {
        takes_placed_ = takes, takes_pools_ = takes && pools;
    }
    bool takes_placed() const { return takes_placed_; }
    bool takes_pools() const { return takes_pools_; }
    void set_takes_linked(bool takes) { takes_linked_ = takes; }
    bool takes_linked() const { return takes_linked_; }
    void set_takes_nccl(bool takes) { takes_nccl_ = takes; }
    bool takes_nccl() const { return takes_nccl_; }

    // Whether use() can add further connections.
    bool takes_lanes() const { return connection_.laned(); }
    // Further connections, in the server's order, carry what is large from now on, `always` or
    // where that is faster; returns when they do both ways, or the session is over.
    void use(std::vector<net::OwnSocket> lanes, bool always);

    // Which images the server has kept.
    KnownImages images;

private:
    void due(uint64_t token, uint32_t status) override;
    double time_of_question();
    bool makes_room(calls::SentCall id, uint32_t context, unsigned times);

    const bool one_host_;
    bool takes_placed_ = false, takes_pools_ = false, takes_linked_ = false, takes_nccl_ = false;
    wire::Snapshot snapshot_;
    net::Clock::time_point learnt_at_ = net::Clock::now();
    std::unique_ptr<Packing> packing_;        // null: nothing is ever packed
    std::unique_ptr<Forecaster> forecaster_;  // null: no forecast is made
    std::atomic<CallbackDue> callback_due_{nullptr};
    MakeRoom make_room_ = nullptr;  // before the first call

    Connection connection_;
    CopyMeter large_copies_;
    FrameReader reader_{connection_};
    Announcements announcements_{connection_, *this};
    Answers answers_{connection_, reader_, announcements_, large_copies_};
    CallBuffer calls_{connection_, answers_, large_copies_};
    Pump pump_{connection_, calls_, answers_};
};

template <class Write>
CUresult ServerSession::post(calls::SentCall id, uint32_t context, Write &&write, Payload payload)
{
    if (!every_call_waits()) return tell(id, context, write, payload);
    Reply reply;
    return ask(id, context, write, reply, payload);
}

template <class Write>
CUresult ServerSession::tell(calls::SentCall id, uint32_t context, Write &&write, Payload payload)
{
    return calls_.put(id, context, write, payload, {});
}

template <class Write> CUresult ServerSession::ask(calls::SentCall id, uint32_t context,
                                                   Write &&write, Reply &reply, Payload payload)
{
    for (unsigned times = 0;; times++) {
        Answer answer;
        calls_.put(id, context, write, payload, answer);
        const CUresult result = answers_.wait(answer);
        if (result == CUDA_ERROR_OUT_OF_MEMORY && makes_room(id, context, times)) continue;
        reply = std::move(answer.reply);
        return result;
    }
}

template <class Write> CUresult ServerSession::copy_out(calls::SentCall id, uint32_t context,
                                                        Write &&write, void *to, size_t bytes,
                                                        bool wait, uint64_t stream)
{
    Answer answer(to, bytes, wait, stream);
    if (!wait)
        return calls_.put(id, context, write, {}, std::make_unique<Answer>(std::move(answer)));
    calls_.put(id, context, write, {}, answer);
    return answers_.wait(answer);
}

template <class Write> bool ServerSession::ask_ahead(calls::SentCall id, uint32_t context,
                                                     Write &&write, Ahead &a, size_t bytes,
                                                     News news)
{
    if (state() || !a.begin(answers_, bytes, news)) return false;
    const CUresult r = calls_.put(id, context, write, {}, a.answer());
    a.sent();
    if (r) answers_.wait_ahead(a.answer());  // whoever reads knows of it
    return r == CUDA_SUCCESS;
}

template <class Write> CUresult ServerSession::post_block(calls::SentCall id, uint32_t context,
                                                          Write &&write, Payload payload,
                                                          Answer &answer)
{
    answer = {};
    answer.ahead = true, answer.news = false;
    return calls_.put(id, context, write, payload, answer);
}

}  // namespace rgpu::interpose
