// SPDX-License-Identifier: Apache-2.0
// What streams, and the program, know of each other's work: whoever has waited for a stream, by an
// event or a synchronisation, knows that what the stream did before is over.
//
// A moment is a number that goes up with each free. Only streams that have freed something which
// others might want are looked at, and what is not noted here is only not known: the answer is
// never "over" for what may go on.
//
// Memory of the process: what throws std::bad_alloc has changed nothing, but for records(): then
// nothing is known of the event. freed() needs none for a stream that is expected.
//
// No lock, and no server. `Stream` is any number but 0, never given to another stream.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>

namespace rgpu::interpose {

class StreamOrder {
public:
    using Stream = uint64_t;
    using Moment = uint64_t;
    // Of each stream, the moment up to which its work is over.
    using View = std::map<Stream, Moment>;

    // The stream may free something, until it is forgotten.
    void expect(Stream stream);
    void forget_stream(Stream stream) noexcept;
    // The stream frees something now: the moment of it.
    Moment freed(Stream stream);
    // Nothing that the stream freed is of interest any more.
    void settled(Stream stream) noexcept;
    bool any() const { return !pending_.empty(); }
    const std::set<Stream> &pending() const { return pending_; }

    // What is over when the stream's work so far is.
    View behind(Stream stream) const;
    static void add(View &to, const View &more);

    // An event is about to be recorded in the stream, or stands for what is not known here.
    void records(uint64_t event, Stream stream);
    void forget_event(uint64_t event) noexcept { events_.erase(event); }
    // What is over when an event is reached, before somebody waits for it; and whether that is so
    // still, as it may be recorded again meanwhile.
    struct Seen {
        uint64_t record = 0;  // 0: nothing is known
        View view;
    };
    Seen seen(uint64_t event) const;
    bool is_so(uint64_t event, const Seen &) const;

    // The stream's next work comes behind all that.
    void waits(Stream stream, const View &);
    // What its next work comes behind, its own work aside.
    const View &before(Stream stream) const;

private:
    // Whole tables are forgotten rather than that they grow without an end.
    static constexpr size_t kMost = 1024;
    void prune() noexcept;
    void prune(View &) const noexcept;

    Moment now_ = 0;
    uint64_t records_ = 0;
    std::set<Stream> pending_, expected_;  // each stream is in one at most
    std::map<Stream, View> waited_;
    std::map<uint64_t, Seen> events_;
};

}  // namespace rgpu::interpose
