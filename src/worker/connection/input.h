// SPDX-License-Identifier: Apache-2.0
// Reading frames: buffered for small ones, straight to their destination for large ones.
//
// One thread reads, the dispatcher. While it may wait in the driver (Away), another one may look at
// what comes meanwhile.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "net/transport/transport.h"
#include "util/result.h"
#include "util/spin.h"
#include "wire/frame.h"

namespace rgpu::net {
class LinkMeter;
class Unpacker;
}  // namespace rgpu::net

namespace rgpu::worker {

class Input {
public:
    // What the pause hook is for: shorter waits are none. Milliseconds. Longer than a program that
    // keeps the GPU busy rests between two bursts of calls: each pause costs it an event. A
    // newcomer to its GPU waits as long for its first turn.
    static constexpr int kMoment = 5;

    explicit Input(net::Transport &from);

    // Before it waits for more than a moment (none where `at_once` says so) it calls `pause`.
    void on_pause(std::function<bool()> at_once, std::function<void()> pause);

    // From now on from there.
    void use(net::Transport &from) { from_ = &from; }
    // Frames in parts are unpacked by that. `meter`, if any, sees how large blocks come, and `tell`
    // hears of it when it says something new.
    void use(net::Unpacker &, net::LinkMeter *meter, std::function<void(uint64_t rate)> tell);

    // The next bytes of the stream. `disconnected` with an empty text: the client closed between
    // frames.
    Result<void> read(void *to, size_t bytes);
    Result<wire::FrameHeader> header();
    // A body of up to a megabyte or so, valid until the next read.
    Result<const uint8_t *> body(size_t bytes);
    // A long body into memory that grows with what has arrived, not with what was announced.
    Result<std::vector<uint8_t>> long_body(size_t bytes);

    // The next bytes where the client put them, at most so many (Transport::lend); no data: they
    // are to be read. Waits for some.
    net::Lent lend(size_t most);

    // Takes what has come and was not taken. Not inside a packed frame.
    std::span<const uint8_t> rest();
    // Whether what is read now came in parts.
    bool packed() const;
    // Whether there is something to read, or the end, after so many milliseconds at most.
    bool comes_within(int timeout) const;
    // Whether all that came was taken.
    bool empty() const;

    // The reader leaves the stream to look_ahead() as long as this lives, where `really`. Between
    // two frames only: what it has of the one before stays valid.
    class Away {
    public:
        Away(Input &input, bool really) : input_(really && !input.packed() ? &input : nullptr)
        {
            if (input_) input_->set_away(true);
        }
        ~Away()
        {
            if (input_) input_->set_away(false);
        }
        Away(const Away &) = delete;
        Away &operator=(const Away &) = delete;

    private:
        Input *const input_;
    };
    // Where the reader has been away for kAwayForLong, this gets every whole frame that has come
    // meanwhile, in order and each once; the reader will not see those that it answers true to.
    // Does not wait. False: the reader is not away, or no more is kept for it (kMostAhead). Any
    // other thread.
    static constexpr std::chrono::milliseconds kAwayForLong{5};
    using Take = std::function<bool(const wire::FrameHeader &, const uint8_t *body)>;
    bool look_ahead(const Take &);

private:
    void set_away(bool away);
    void fetch_ahead();
    bool fill();
    Error ended() const;
    ssize_t receive(void *to, size_t bytes);
    ssize_t take(void *to, size_t bytes, int timeout);
    Result<void> read_raw(void *to, size_t bytes);
    Result<void> read_packed(void *to, size_t bytes);
    net::Transport *from_;
    std::function<bool()> at_once_;
    std::function<void()> pause_;
    static constexpr size_t kBufferBytes = 256 << 10;
    // Its pages are touched as bytes come: most programs' calls need few.
    std::unique_ptr<uint8_t[]> buffer_ = std::make_unique_for_overwrite<uint8_t[]>(kBufferBytes);
    size_t begin_ = 0, end_ = 0;
    bool behind_large_ = false;  // the last block went straight to its destination
    std::vector<uint8_t> body_;
    // A program that starts does more between its first calls than a look is worth, and the next
    // worker is started beside it.
    static constexpr unsigned kFirstWaits = 16;
    Spin spin_{kFirstWaits};
    static constexpr size_t kMostAhead = 64 << 20;
    std::unique_ptr<std::mutex> ahead_mutex_ = std::make_unique<std::mutex>();
    bool away_ = false;  // as all below, with that mutex held; while it is not, the
                         // reader's alone
    std::chrono::steady_clock::time_point away_since_;
    std::vector<uint8_t> ahead_;  // came while it was away; from ahead_begin_ on it has not read it
    size_t ahead_begin_ = 0, looked_at_ = 0;
    net::Unpacker *unpacker_ = nullptr;
    net::LinkMeter *meter_ = nullptr;
    std::function<void(uint64_t)> tell_;
    bool broken_ = false;  // not ended: what came is none of a transport's
};

}  // namespace rgpu::worker
