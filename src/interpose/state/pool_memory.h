// SPDX-License-Identifier: Apache-2.0
// The memory of one pool of stream-ordered memory: what of it is given out, and who may be given
// the rest (doc/addresses.md, "Stream-ordered memory").
//
// Memory that was freed is a hole. A stream that freed it may have it again at once. Others may not
// before they know that the stream has come past the moment of the free. When the program knows,
// the hole is nobody's and anyone's.
//
// A pool consists of pages, which come and go one by one, and of pieces, each of which comes and
// goes as a whole.
//
// No lock, and no server.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "interpose/state/stream_order.h"

namespace rgpu::interpose {

class PoolMemory {
public:
    using Stream = StreamOrder::Stream;
    using Moment = StreamOrder::Moment;
    static constexpr Stream kNobody = 0;
    static constexpr uint64_t kPage = uint64_t{2} << 20, kUnit = 512;
    // An allocation takes so many bytes.
    static constexpr uint64_t rounded(uint64_t bytes)
    {
        return (bytes + kUnit - 1) / kUnit * kUnit;
    }

    struct Range {
        uint64_t begin = 0, bytes = 0;
    };

    // Whole pages have come, and `bytes` of them are given out at once, from their beginning.
    enum class Kind : uint8_t { pages, piece };
    void grow(const Range &, Kind, uint64_t bytes);
    // Memory for a stream, of what it freed itself and of what is nobody's; 0: there is none.
    uint64_t take(uint64_t bytes, Stream stream);
    // ... of what another stream freed until a moment, which is past for the one that asks.
    uint64_t take_from(uint64_t bytes, Stream other, Moment until);
    // What was given out is free for a stream; since `moment`, for others.
    void free(const Range &, Stream stream, Moment moment);

    // The stream has come past this moment.
    void over(Stream stream, Moment until);
    // Whether there is memory that waits for the stream's.
    bool waits_for(Stream stream) const { return of_.contains(stream) && stream != kNobody; }
    // Takes out whole pages and pieces that are nobody's, until no more than so many bytes are
    // left.
    std::vector<Range> release(uint64_t keep);

    // Bytes that wait for streams.
    uint64_t waiting() const { return reserved_.now - used_.now - nobodys_; }
    // Bytes that are given out, and that the pool has; and the most of each since reset_high().
    struct Count {
        uint64_t now = 0, high = 0;
    };
    const Count &used() const { return used_; }
    const Count &reserved() const { return reserved_; }
    void reset_used_high() { used_.high = used_.now; }
    void reset_reserved_high() { reserved_.high = reserved_.now; }

private:
    struct Hole {
        uint64_t bytes = 0;
        Stream stream = kNobody;
        Moment moment = 0;  // 0: nobody's
    };
    // The holes of one stream, each by its beginning.
    struct Of {
        std::set<std::pair<uint64_t, uint64_t>> by_size;  // (bytes, begin)
        std::set<std::pair<Moment, uint64_t>> by_moment;  // (moment, begin); not nobody's
    };
    using Holes = std::map<uint64_t, Hole>;

    static void change(Count &, uint64_t more, uint64_t less);
    void insert(uint64_t begin, const Hole &);
    // As a part of the holes beside it, where these are the same stream's.
    void insert_joined(uint64_t begin, Hole);
    Holes::iterator erase(Holes::iterator);
    // Takes the beginning of a hole.
    uint64_t cut(Holes::iterator, uint64_t bytes);
    bool joins(uint64_t at) const;
    const std::pair<const uint64_t, uint64_t> *piece_at(uint64_t address) const;
    bool take_out(Range whole, uint64_t most, std::vector<Range> &);

    Holes holes_;
    std::map<Stream, Of> of_;
    std::map<uint64_t, uint64_t> pieces_;  // bytes, by their beginning
    Count used_, reserved_;
    uint64_t nobodys_ = 0;
};

}  // namespace rgpu::interpose
