// SPDX-License-Identifier: Apache-2.0
// Agreeing: opening the libraries, and one question to the server. Both in a thread of its own, as
// the threads that notice hold locks that others need to get out of ld.so (a library's constructor
// may call the driver).
#include "interpose/link/packing_agreement.h"

#include <cstdlib>
#include <cstring>
#include <string_view>

#include "calls/handles.h"
#include "interpose/base/background.h"
#include "interpose/base/log.h"

namespace rgpu::interpose {

namespace {

using wire::PackMethod;

constexpr const char *kNames[] = {"auto", "off", "lz4", "zstd"};

}  // namespace

Result<PackingAgreement::Wanted> PackingAgreement::wanted()
{
    const char *v = getenv("RGPU_COMPRESSION");
    if (!v || !*v) return Wanted::automatic;
    for (size_t i = 0; i < std::size(kNames); i++)
        if (!strcmp(v, kNames[i])) return static_cast<Wanted>(i);
    return error(ErrorKind::invalid, "RGPU_COMPRESSION is \"%s\": auto, off, lz4 or zstd", v);
}

unsigned PackingAgreement::wanted_methods() const
{
    switch (wanted_) {
    case Wanted::off: return 0;
    case Wanted::lz4: return wire::bit(PackMethod::lz4);
    case Wanted::zstd: return wire::bit(PackMethod::zstd);
    case Wanted::automatic: break;
    }
    return wire::bit(PackMethod::lz4) | wire::bit(PackMethod::zstd);
}

void PackingAgreement::agree_now()
{
    if (packing_.always()) negotiate();
}

void PackingAgreement::agree_later()
{
    std::lock_guard lock(mutex_);
    changed_ = true;
    if (running_ || never_) return;
    running_ = start_thread(session_,
                            [this] { run(); });  // where there is none, the next change tries again
}

void PackingAgreement::run()
{
    for (std::unique_lock lock(mutex_);;) {
        if (!changed_ || never_) {
            running_ = false;
            return;
        }
        changed_ = false;
        lock.unlock();
        negotiate();
        lock.lock();
    }
}

void PackingAgreement::negotiate()
{
    const char *const no = packing_.always() ? "no " : "neither lz4 nor zstd",
                      *const what = packing_.always() ? kNames[static_cast<size_t>(wanted_)] : "";
    const auto give_up = [&](const char *where, const char *why) {
        std::lock_guard lock(mutex_);
        never_ = true;
        say("copies to and from %s go unpacked%s: there is %s%s %s%s%s", session_.server().c_str(),
            packing_.always() ? "" : " over a slow link", no, what, where, *why ? ": " : "", why);
    };
    const auto &library = net::PackLibrary::here();
    wire::Packing told;
    told.methods = library.methods() & wanted_methods();
    told.rate = packing_.rate();
    told.wish = packing_.always() ? wire::PackWish::always
                : told.rate       ? wire::PackWish::slow_link
                                  : wire::PackWish::no;
    if (!told.methods)
        return give_up("here (Debian: liblz4-1, libzstd1)", library.missing().c_str());
    packing_.in.use(told.methods);
    Reply reply;
    const CUresult r = session_.ask(
        static_cast<calls::CallId>(wire::kPackingCall), calls::kNoHandle,
        [&](wire::Writer &w) { w.value(told); }, reply);
    if (r) return;  // the connection is gone, or the server has its reasons
    const auto common = wire::Reader(reply.body.data(), reply.body.size()).value<uint32_t>();
    if (!(common & told.methods)) return give_up("on the server", "");
    packing_.out.use(common & told.methods, packing_.always());
}

}  // namespace rgpu::interpose
