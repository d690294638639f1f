// SPDX-License-Identifier: Apache-2.0
// What is packed comes back as it was; what is damaged anywhere, cut short or never agreed on is
// refused, and nothing is written outside of what was asked for; what does not shrink, or goes over
// a fast link, is not packed.
#include "net/packing/packer.h"

#include <criterion/criterion.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <string_view>
#include <vector>

#include "net/packing/unpacker.h"

using namespace rgpu;
using namespace rgpu::net;
using wire::PackMethod;

namespace {

using Bytes = std::vector<uint8_t>;
constexpr uint16_t kType = wire::kPartCall;
constexpr size_t kPage = 4096;

unsigned there(PackMethod m)
{
    if (!(PackLibrary::here().methods() & wire::bit(m)))
        cr_skip_test("%s", PackLibrary::here().missing().c_str());
    return wire::bit(m);
}

Bytes text(size_t n)
{
    constexpr std::string_view kWords[] = {"call, ",  "frame, ",  "session, ", "device, ",
                                           "lease, ", "server, ", "job, ",     "and so on. "};
    std::mt19937 dice(1);
    Bytes b;
    while (b.size() < n) {
        const auto word = kWords[dice() % std::size(kWords)];
        b.insert(b.end(), word.begin(), word.end());
    }
    b.resize(n);
    return b;
}

Bytes noise(size_t n)
{
    std::mt19937_64 dice(1);
    Bytes b(n);
    for (size_t i = 0; i + 8 <= n; i += 8) {
        const uint64_t word = dice();
        memcpy(&b[i], &word, 8);
    }
    return b;
}

wire::FrameHeader header_of(const Bytes &payload)
{
    wire::FrameHeader h;
    h.bytes = static_cast<uint32_t>(payload.size());
    h.type = 77;
    return h;
}

// A frame with this payload as it goes over the wire.
Bytes packed(Packer &packer, const Bytes &payload)
{
    const wire::FrameHeader h = header_of(payload), head = packer.head(sizeof h);
    Bytes all;
    const auto put = [&](const void *p, size_t n) {
        all.insert(all.end(), static_cast<const uint8_t *>(p), static_cast<const uint8_t *>(p) + n);
    };
    put(&head, sizeof head), put(&h, sizeof h);
    for (size_t at = 0, n; at < payload.size(); at += n) {
        n = std::min<size_t>(payload.size() - at, wire::kPartBytes);
        const auto part = packer.part(&payload[at], n, at + n == payload.size());
        put(part.data(), part.size());
    }
    return all;
}

// Memory that ends at a page which nobody may touch, as it begins behind one.
class Fenced {
public:
    explicit Fenced(size_t bytes)
        : bytes_(bytes), all_((bytes + kPage - 1) / kPage * kPage + 2 * kPage)
    {
        all_at_ = static_cast<uint8_t *>(
            mmap(nullptr, all_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
        cr_assert(all_at_ != MAP_FAILED &&
                  mprotect(all_at_ + kPage, all_ - 2 * kPage, PROT_READ | PROT_WRITE) == 0);
    }
    Fenced(const Fenced &) = delete;
    ~Fenced() { munmap(all_at_, all_); }
    uint8_t *data() const { return all_at_ + all_ - kPage - bytes_; }

private:
    size_t bytes_, all_;
    uint8_t *all_at_;
};

// What a receiver makes of these bytes: reads a frame of that payload, `step` bytes at a time.
Result<void> unpack(unsigned methods, const Bytes &stream, uint8_t *payload, size_t bytes,
                    size_t step = SIZE_MAX)
{
    Unpacker unpacker(kType);
    unpacker.use(methods);
    size_t at = 0;
    const auto raw = [&](void *to, size_t n) {
        if (stream.size() - at < n) return false;
        memcpy(to, &stream[at], n);
        at += n;
        return true;
    };
    wire::FrameHeader h;
    if (!raw(&h, sizeof h)) return Error{ErrorKind::disconnected, ""};
    if (h.type != kType) return error(ErrorKind::invalid, "no part");
    if (auto r = unpacker.open(h); !r) return r;
    if (auto r = unpacker.read(&h, sizeof h, raw); !r) return r;
    if (h.type != 77 || h.bytes != bytes) return error(ErrorKind::invalid, "another frame");
    for (size_t done = 0, n; done < bytes; done += n) {
        n = std::min(step, bytes - done);
        if (auto r = unpacker.read(payload + done, n, raw); !r) return r;
    }
    if (auto r = unpacker.close(); !r) return r;
    return at == stream.size() ? Result<void>()
                               : Result<void>(error(ErrorKind::invalid, "bytes behind the frame"));
}

void begin(Packer &packer, unsigned methods, const Bytes &payload)
{
    packer.use(methods, true);
    cr_assert(packer.takes(payload.data(), payload.size()));
}

void come_back(PackMethod method)
{
    const unsigned methods = there(method);
    for (size_t size : {size_t{16 << 10}, size_t{20'001}, size_t{wire::kPartBytes},
                        size_t{wire::kPartBytes + 1}, size_t{3'000'000}}) {
        Bytes payload = text(size);
        // A part that does not shrink goes as it is, between others that do.
        if (size > 2'000'000)
            std::ranges::copy(noise(wire::kPartBytes), payload.begin() + wire::kPartBytes);
        Packer packer(kType);
        begin(packer, methods, payload);
        const Bytes stream = packed(packer, payload);
        cr_expect(stream.size() < size * 3 / 4, "%zu bytes became %zu", size, stream.size());
        cr_expect_eq(packer.taken(), size);
        cr_expect_eq(packer.made() + 2 * sizeof(wire::FrameHeader), stream.size());
        for (size_t step :
             {size_t{SIZE_MAX}, size_t{4096}, size_t{777}, size_t{wire::kPartBytes}}) {
            Fenced to(size);
            auto r = unpack(methods, stream, to.data(), size, step);
            cr_expect(r && !memcmp(to.data(), payload.data(), size), "%zu bytes, %zu at a time: %s",
                      size, step, r ? "others" : r.error().text.c_str());
        }
    }
}

// Whatever comes of it, it is an error or the payload's bytes, nothing is read behind what came,
// and nothing written outside.
void survive(PackMethod method)
{
    const unsigned methods = there(method);
    const Bytes payload = text(17'000);
    Packer packer(kType);
    begin(packer, methods, payload);
    const Bytes stream = packed(packer, payload);
    size_t refused = 0;
    for (size_t at = 0; at < stream.size(); at++)
        for (uint8_t change : {0x01, 0x80, 0xff}) {
            Bytes damaged = stream;
            damaged[at] ^= change;
            Fenced to(payload.size());
            refused += !unpack(methods, damaged, to.data(), payload.size());
        }
    cr_expect(refused > 100, "%zu", refused);
    // Of the parts' headers every field is checked; the payload's part begins behind the head and
    // the frame's header.
    for (size_t part : {size_t{0}, 2 * sizeof(wire::FrameHeader)})
        for (size_t at = part; at < part + sizeof(wire::FrameHeader); at++)
            for (int bit = 0; bit < 8; bit++) {
                Bytes damaged = stream;
                damaged[at] ^= static_cast<uint8_t>(1 << bit);
                Fenced to(payload.size());
                cr_expect(!unpack(methods, damaged, to.data(), payload.size()), "byte %zu, bit %d",
                          at, bit);
            }
    for (size_t bytes = 0; bytes < stream.size(); bytes++) {
        Fenced to(payload.size());
        auto r = unpack(methods,
                        Bytes(stream.begin(), stream.begin() + static_cast<ptrdiff_t>(bytes)),
                        to.data(), payload.size());
        cr_expect(!r && r.error().kind == ErrorKind::disconnected && r.error().text.empty(),
                  "%zu bytes", bytes);
    }
}

}  // namespace

Test(packer, lz4_comes_back) { come_back(PackMethod::lz4); }
Test(packer, zstd_comes_back) { come_back(PackMethod::zstd); }
Test(packer, lz4_damaged_anywhere_does_no_harm) { survive(PackMethod::lz4); }
Test(packer, zstd_damaged_anywhere_does_no_harm) { survive(PackMethod::zstd); }

Test(packer, what_nobody_agreed_to_is_refused)
{
    const unsigned both = there(PackMethod::lz4) | there(PackMethod::zstd);
    const Bytes payload = text(17'000);
    Packer packer(kType);
    begin(packer, wire::bit(PackMethod::zstd), payload);
    const Bytes stream = packed(packer, payload);
    Bytes to(payload.size());
    cr_expect(unpack(both, stream, to.data(), to.size()).has_value());
    const auto other = unpack(wire::bit(PackMethod::lz4), stream, to.data(), to.size()),
               none = unpack(0, stream, to.data(), to.size());
    cr_expect(!other && strstr(other.error().text.c_str(), "a method that nobody has agreed to"));
    cr_expect(!none && strstr(none.error().text.c_str(), "nobody has agreed to any"));
}

Test(packer, parts_are_one_frame_no_more_and_no_less)
{
    const unsigned methods = there(PackMethod::lz4);
    const Bytes payload = text(300'000);
    Packer packer(kType);
    begin(packer, methods, payload);
    const Bytes stream = packed(packer, payload);
    Bytes more = stream, less = stream, to(payload.size());
    // The frame's own header, behind the first part's, says how long it is.
    const uint32_t longer = 300'001, shorter = 299'999;
    memcpy(&more[sizeof(wire::FrameHeader)], &longer, sizeof longer);
    memcpy(&less[sizeof(wire::FrameHeader)], &shorter, sizeof shorter);
    to.resize(longer);
    const auto r = unpack(methods, more, to.data(), longer),
               s = unpack(methods, less, to.data(), shorter);
    cr_expect(!r && strstr(r.error().text.c_str(), "longer than its parts"));
    cr_expect(!s && strstr(s.error().text.c_str(), "shorter than its parts"));
}

Test(packer, small_payloads_and_fast_links_are_left_alone)
{
    const unsigned methods = there(PackMethod::lz4);
    const Bytes payload = text(1 << 20);
    Packer packer(kType);
    cr_expect(!packer.takes(payload.data(), payload.size()), "no method");
    packer.use(methods, false);
    cr_expect(!packer.takes(payload.data(), payload.size()), "nobody has complained");
    packer.link_is(10'000'000);
    cr_expect(packer.takes(payload.data(), payload.size()));
    cr_expect(!packer.takes(payload.data(), Packer::kLeastPayload - 1));
    packer.link_is(0);
    cr_expect(!packer.takes(payload.data(), payload.size()));
}

Test(packer, noise_is_looked_at_now_and_then)
{
    const unsigned methods = there(PackMethod::lz4);
    const Bytes bad = noise(1 << 20), good = text(1 << 20);
    Packer packer(kType);
    packer.use(methods, false);
    packer.link_is(1'000'000);
    cr_assert(!packer.takes(bad.data(), bad.size()));
    cr_expect(!packer.takes(good.data(), good.size()), "the next megabyte is not looked at");
    for (int i = 0; i < 64; i++) cr_assert(!packer.takes(bad.data(), bad.size()));
    int left = 0;
    while (!packer.takes(good.data(), good.size())) left++;
    cr_expect(left <= 8, "%d megabytes", left);
    // ... and of bytes that shrink, none is left out before the first that do not.
    packed(packer, good);
    cr_expect(packer.takes(good.data(), good.size()));
    packed(packer, bad);
    cr_expect(!packer.takes(bad.data(), bad.size()));
}

Test(packer, the_link_is_looked_at_now_and_then)
{
    const unsigned methods = there(PackMethod::lz4);
    const Bytes payload = text(1 << 20);
    Packer packer(kType);
    packer.use(methods, false);
    packer.link_is(1);  // slower than any processor
    size_t left = 0, taken = 0;
    for (; taken < 400; taken++) {
        while (!packer.takes(payload.data(), payload.size())) left++;
        packed(packer, payload);
    }
    cr_expect(left >= 4 && left * 10 < taken, "%zu of %zu megabytes went as they were", left,
              left + taken);
}

Test(packer, a_processor_that_is_slower_than_the_link_packs_little)
{
    const unsigned methods = there(PackMethod::lz4);
    const Bytes payload = text(1 << 20);
    Packer packer(kType);
    packer.use(methods, false);
    packer.link_is(1'000'000'000'000);
    size_t taken = 0;
    for (int i = 0; i < 200; i++)
        if (packer.takes(payload.data(), payload.size())) packed(packer, payload), taken++;
    cr_expect(taken && taken <= 40, "%zu of 200 megabytes", taken);
}

Test(packer, zstd_packs_what_lz4_cannot)
{
    const unsigned both = there(PackMethod::lz4) | there(PackMethod::zstd);
    Bytes letters = noise(1 << 20);
    for (uint8_t &c : letters) c &= 63;  // six bits each, and nothing that repeats
    const auto method = [&](uint64_t rate, const Bytes &payload) {
        Packer packer(kType);
        packer.use(both, false);
        packer.link_is(rate);
        cr_assert(packer.takes(payload.data(), payload.size()));
        return packer.method();
    };
    cr_expect(method(100'000'000, letters) == PackMethod::zstd);
    cr_expect(method(100'000'000, text(1 << 20)) == PackMethod::lz4, "the faster one");
    cr_expect(method(10'000'000, text(1 << 20)) == PackMethod::zstd, "the better one");
}
