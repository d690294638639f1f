// SPDX-License-Identifier: Apache-2.0
#include "interpose/span/address_space.h"

#include "interpose/base/log.h"
#include "interpose/mirror/addresses.h"
#include "interpose/stub/stub.h"

namespace rgpu::interpose {

namespace {

constexpr int kMostTries = 256;  // some round trips each
constexpr size_t kGranule = size_t{2} << 20;
// So much at once: where two drivers count up alike, what one of them gives next.
constexpr size_t kAhead = size_t{16} << 30;
// Drivers put smaller pieces together into pages of a granule.
constexpr size_t kLargestPiece = size_t{1} << 20, kSmallestPiece = 512;

// Reserves addresses at the server, for as long as the program runs: its driver gives them to
// nothing else. False where they are not free, as beside other small pieces.
bool reserve(CUdeviceptr base, size_t bytes)
{
    for (size_t room : {kAhead, (bytes + 2 * kGranule - 1) / kGranule * kGranule}) {
        CUdeviceptr got = 0;
        if (remote<CallId::cuMemAddressReserve>(&got, room, size_t{0}, base / kGranule * kGranule,
                                                0ull))
            continue;
        if (base >= got && base - got < room) return true;
        remote<CallId::cuMemAddressFree>(got, room);
    }
    return false;
}

// Takes the room for pieces in the address's page, the large ones first; the page is in use anyway.
// They end with the context.
bool fill_page(CUdeviceptr base, size_t bytes)
{
    bool filled = false;
    size_t taken = 0;  // no page holds more, whatever the server says
    for (size_t piece = kLargestPiece; bytes <= kLargestPiece && piece >= kSmallestPiece;
         piece /= 2)
        for (; taken < kGranule; taken += piece) {
            CUdeviceptr got = 0;
            if (remote<CallId::cuMemAlloc_v2>(&got, piece)) break;
            if (got / kGranule != base / kGranule) {
                remote<CallId::cuMemFree_v2>(got);
                break;
            }
            filled = true;
        }
    return filled;
}

}  // namespace

CUresult detail::move_apart(CUdeviceptr *base, const std::function<size_t()> &bytes,
                            const std::function<CUresult()> &allocate,
                            const std::function<void(CUdeviceptr)> &give_back)
{
    std::vector<CUdeviceptr> kept;
    CUresult r = CUDA_SUCCESS;
    for (int tries = 0; !r && taken_elsewhere(*base, bytes()); tries++) {
        const CUdeviceptr taken = *base;
        give_back(taken);
        if (tries == kMostTries) {
            say("server %s gives no addresses that no other server of this lease uses, after %d "
                "tries; "
                "ask for GPUs of one server (without --rgpu-span)",
                session()->server().c_str(), tries);
            r = CUDA_ERROR_OUT_OF_MEMORY;
            break;
        }
        const bool gone = reserve(taken, bytes()) || fill_page(taken, bytes());
        r = allocate();
        if (r || gone || *base != taken) continue;
        kept.push_back(taken);  // until the end of the search
        r = allocate();
    }
    for (CUdeviceptr p : kept) give_back(p);
    return r;
}

}  // namespace rgpu::interpose
