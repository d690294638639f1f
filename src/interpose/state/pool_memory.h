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
// Memory of the process: what gives out takes the memory that the free will need. free() and over()
// need none, and do not throw. The others throw std::bad_alloc, and then have changed nothing.
//
// No lock, and no server.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "interpose/state/stream_order.h"
#include "util/spare_nodes.h"

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
    // What was given out, all of it, is free for a stream; since `moment`, for others.
    void free(const Range &, Stream stream, Moment moment) noexcept;

    // The stream has come past this moment.
    void over(Stream stream, Moment until) noexcept;
    // Whether there is memory that waits for the stream's.
    bool waits_for(Stream stream) const;
    // Takes out whole pages and pieces that are nobody's, until no more than so many bytes are
    // left.
    std::list<Range> release(uint64_t keep);

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

    // For tests: whether all tables say the same.
    bool is_sound() const;

private:
    struct Hole {
        uint64_t bytes = 0;
        Stream stream = kNobody;
        Moment moment = 0;  // 0: nobody's
    };
    // Each hole is in all three.
    using Holes = std::map<uint64_t, Hole>;                           // by their beginning
    using BySize = std::set<std::tuple<Stream, uint64_t, uint64_t>>;  // (stream, bytes, begin)
    using ByMoment = std::set<std::tuple<Stream, Moment, uint64_t>>;  // (stream, moment, begin)
    using Spares = SpareNodes<Holes, BySize, ByMoment>;
    // Beyond what the frees may need.
    static constexpr size_t kMostSpare = 64;

    static void change(Count &, uint64_t more, uint64_t less) noexcept;
    void insert(Spares::Nodes &&, uint64_t begin, const Hole &) noexcept;
    // As a part of the holes beside it, where these are the same stream's.
    void insert_joined(Spares::Nodes &&, uint64_t begin, Hole) noexcept;
    Spares::Nodes erase(Holes::iterator) noexcept;
    void put(Spares::Nodes &&n) noexcept { spares_.put(std::move(n), given_out_ + kMostSpare); }
    // Takes the beginning of a hole.
    uint64_t cut(Holes::iterator, uint64_t bytes);
    bool joins(uint64_t at) const noexcept;
    const std::pair<const uint64_t, uint64_t> *piece_at(uint64_t address) const noexcept;
    Range part_to_release(const Range &hole, uint64_t most) const noexcept;
    void take_out(const Range &hole, const Range &part) noexcept;

    Holes holes_;
    BySize by_size_;
    ByMoment by_moment_;
    std::map<uint64_t, uint64_t> pieces_;  // bytes, by their beginning
    // As many as allocations are given out, at least: each free makes a hole.
    Spares spares_;
    size_t given_out_ = 0;
    Count used_, reserved_;
    uint64_t nobodys_ = 0;
};

}  // namespace rgpu::interpose
