// SPDX-License-Identifier: Apache-2.0
#include "softgpu/driver/image/fatbin.h"

#include <lz4.h>
#include <zstd.h>

#include <algorithm>
#include <cstring>

namespace rgpu::softgpu::driver {

namespace {

constexpr uint64_t kMaxUnpacked = uint64_t{1} << 30, kMaxFatbin = uint64_t{1} << 32;
constexpr uint64_t kMaxRatio =
    65536;  // beyond what either packing can do: a small file cannot ask for much memory
constexpr uint16_t kKindPtx = 1;
constexpr uint64_t kFlagLz4 = 0x2000, kFlagZstd = 0x8000;

struct Header {
    uint32_t magic;
    uint16_t version, header_bytes;
    uint64_t bytes;  // after the header
};

// The first 64 bytes of an entry's header; the rest is not needed.
struct EntryHeader {
    uint16_t kind, version;
    uint32_t header_bytes;
    uint64_t payload_bytes;
    uint32_t packed_bytes;
    uint32_t unknown1, unknown2;
    uint32_t arch;
    uint64_t unknown3;
    uint64_t flags;
    uint64_t unknown4;
    uint64_t unpacked_bytes;
};
static_assert(offsetof(EntryHeader, packed_bytes) == 16 && offsetof(EntryHeader, arch) == 28 &&
              offsetof(EntryHeader, flags) == 40 && offsetof(EntryHeader, unpacked_bytes) == 56);

template <class T> T read(std::span<const uint8_t> bytes, size_t at)
{
    T value;
    memcpy(&value, bytes.data() + at, sizeof value);
    return value;
}

Error damaged(const char *what, size_t at)
{
    return error(ErrorKind::invalid, "damaged fat binary: %s at byte %zu", what, at);
}

}  // namespace

uint64_t fatbin_bytes(const void *header)
{
    Header h;
    memcpy(&h, header, sizeof h);
    if (h.magic != kFatbinMagic || h.header_bytes < sizeof h || h.bytes > kMaxFatbin) return 0;
    return h.header_bytes + h.bytes;
}

std::vector<std::span<const uint8_t>> find_fatbins(std::span<const uint8_t> file)
{
    std::vector<std::span<const uint8_t>> found;
    uint8_t mark[sizeof kFatbinMagic];
    memcpy(mark, &kFatbinMagic, sizeof mark);
    while (file.size() >= sizeof(Header)) {
        const auto at = std::search(file.begin(), file.end(), std::begin(mark), std::end(mark));
        file = file.subspan(at - file.begin());
        if (file.size() < sizeof(Header)) break;
        const uint64_t size = fatbin_bytes(file.data());
        const bool whole = size && size <= file.size();
        if (whole) found.push_back(file.first(size));
        file = file.subspan(whole ? size : sizeof mark);
    }
    return found;
}

Result<std::vector<FatbinEntry>> read_fatbin(std::span<const uint8_t> bytes)
{
    if (bytes.size() < sizeof(Header)) return damaged("no header", 0);
    const auto header = read<Header>(bytes, 0);
    if (header.magic != kFatbinMagic) return damaged("no magic number", 0);
    if (header.header_bytes < sizeof header || header.header_bytes > bytes.size() ||
        header.bytes > bytes.size() - header.header_bytes)
        return damaged("impossible size", 4);

    std::vector<FatbinEntry> entries;
    size_t at = header.header_bytes;
    const size_t end = at + header.bytes;
    while (end - at >= sizeof(EntryHeader)) {
        const auto e = read<EntryHeader>(bytes, at);
        if (e.header_bytes < sizeof e || e.header_bytes > end - at)
            return damaged("impossible entry header", at);
        if (e.payload_bytes > end - at - e.header_bytes)
            return damaged("entry longer than the rest", at);
        FatbinEntry entry;
        entry.ptx = e.kind == kKindPtx;
        entry.arch = e.arch;
        if (e.flags & kFlagZstd) entry.packing = FatbinEntry::Packing::zstd;
        if (e.flags & kFlagLz4) entry.packing = FatbinEntry::Packing::lz4;
        uint64_t used = e.payload_bytes;
        if (entry.packing != FatbinEntry::Packing::none) {
            if (e.packed_bytes > used || e.packed_bytes > kMaxUnpacked)
                return damaged("packed size beyond its entry", at);
            if (e.unpacked_bytes > kMaxUnpacked || e.unpacked_bytes / kMaxRatio > e.packed_bytes)
                return damaged("impossible unpacked size", at);
            used = e.packed_bytes;
            entry.unpacked_bytes = e.unpacked_bytes;
        }
        entry.payload = bytes.subspan(at + e.header_bytes, used);
        entries.push_back(entry);
        at += e.header_bytes + e.payload_bytes;
    }
    return entries;
}

Result<std::string> unpack(const FatbinEntry &e)
{
    std::string text;
    if (e.packing == FatbinEntry::Packing::none) {
        text.assign(e.payload.begin(), e.payload.end());
    } else {
        text.resize(e.unpacked_bytes);
        size_t got = 0;
        if (e.packing == FatbinEntry::Packing::zstd) {
            got = ZSTD_decompress(text.data(), text.size(), e.payload.data(), e.payload.size());
            if (ZSTD_isError(got))
                return error(ErrorKind::invalid, "damaged fat binary: zstd: %s",
                             ZSTD_getErrorName(got));
        } else {
            const int n = LZ4_decompress_safe(reinterpret_cast<const char *>(e.payload.data()),
                                              text.data(), static_cast<int>(e.payload.size()),
                                              static_cast<int>(text.size()));
            if (n < 0) return error(ErrorKind::invalid, "damaged fat binary: bad LZ4 data");
            got = n;
        }
        text.resize(got);
    }
    if (e.ptx) text.resize(strnlen(text.data(), text.size()));
    return text;
}

Result<std::string> best_ptx(std::span<const uint8_t> bytes, unsigned compute_capability)
{
    Result<std::vector<FatbinEntry>> entries = read_fatbin(bytes);
    if (!entries) return std::move(entries).error();
    const FatbinEntry *best = nullptr;
    std::string there;
    for (const FatbinEntry &e : *entries) {
        there += (there.empty() ? "" : ", ") +
                 std::string(e.ptx ? "PTX for compute_" : "machine code for sm_") +
                 std::to_string(e.arch);
        if (e.ptx && e.arch <= compute_capability && (!best || e.arch > best->arch)) best = &e;
    }
    if (best) return unpack(*best);
    return error(ErrorKind::unsupported,
                 "the image holds no PTX for compute capability %u.%u or older, which is all that "
                 "this device can run "
                 "(it holds %s; with nvcc: -gencode arch=compute_%u,code=compute_%u)",
                 compute_capability / 10, compute_capability % 10,
                 there.empty() ? "nothing" : there.c_str(), compute_capability, compute_capability);
}

}  // namespace rgpu::softgpu::driver
