#include "interpose/one_space.h"

#include "interpose/log.h"
#include "interpose/memory.h"
#include "interpose/stub.h"

namespace rgpu::interpose::detail {

namespace {

constexpr int kMostTries = 1024;  // a round trip or two each
constexpr size_t kGranule = size_t{2} << 20;
// So much at once: where two drivers count up alike, what one of them gives next.
constexpr size_t kAhead = size_t{16} << 30;

// Reserves addresses at the server from `base` on, for as long as the program runs: its driver gives them to nothing else. False
// where they are not free, as beside other small pieces.
bool hold_addresses(CUdeviceptr base, size_t bytes)
{
    for (size_t room : {kAhead, (bytes + 2 * kGranule - 1) / kGranule * kGranule}) {
        CUdeviceptr got = 0;
        if (remote<CallId::cuMemAddressReserve>(&got, room, size_t{0}, base / kGranule * kGranule, 0ull)) continue;
        if (base >= got && base - got < room) return true;
        remote<CallId::cuMemAddressFree>(got, room);
    }
    return false;
}

}  // namespace

CUresult move_apart(CUdeviceptr *base, const std::function<size_t()> &bytes, const Allocate &allocate, const GiveBack &give_back)
{
    std::vector<CUdeviceptr> kept;
    CUresult r = CUDA_SUCCESS;
    for (int tries = 0; !r && taken_elsewhere(*base, bytes()); tries++) {
        const CUdeviceptr taken = *base;
        if (tries == kMostTries) {
            give_back(taken);
            say("server %s gives no addresses that no other server of this lease uses, after %d tries; "
                "ask for GPUs of one server (without --rgpu-span)", session()->server().c_str(), tries);
            r = CUDA_ERROR_OUT_OF_MEMORY;
            break;
        }
        give_back(taken);
        const bool held = hold_addresses(taken, bytes());
        r = allocate();
        if (r || held || *base != taken) continue;
        kept.push_back(taken);
        r = allocate();
    }
    for (CUdeviceptr p : kept) give_back(p);
    return r;
}

}  // namespace rgpu::interpose::detail
