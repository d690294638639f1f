// SPDX-License-Identifier: Apache-2.0
// A client session and a worker session in one process, the recording driver under the worker, and
// a tap on the wire between them.
#pragma once

#include <sys/socket.h>

#include <cstdlib>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "interpose/stub/stub.h"
#include "net/transport/socket_transport.h"
#include "net/transport/transport.h"
#include "t/recorder/record.h"
#include "worker/calls/serve.h"
#include "worker/dispatch/dispatcher.h"

namespace rgpu::test {

using calls::CallId;
using calls::HandleId;
using calls::RoleKind;
using recorder::Bytes;
using recorder::Note;

// Loads the recording driver and makes it the worker's.
void use_recorder();
Note note_of(CallId id);
void answer(CUresult result);

// The session and the context that calls of this process use.
void use_session(interpose::ServerSession *s);
void use_context(HandleId id);

struct Frame {
    wire::FrameHeader header;
    Bytes body;

    Bytes bytes() const;
};

struct Exchange {
    Frame call;
    std::optional<Frame> reply;
};

// Two ends that talk to each other, with every frame kept that went from one to the other.
class Wire {
public:
    Wire();

    interpose::ServerSession &client() { return *client_; }
    worker::Session &server() { return server_->session; }

    // Waits until the worker has carried out everything that was sent.
    CUresult barrier();
    // The last frame of this call, and the reply to it if there was one.
    Frame last_call(CallId id);
    std::optional<Frame> reply_to(uint32_t sequence);
    std::map<uint16_t, Frame> last_calls();
    // From now on every call's frame is put behind these, with the answer if there is one.
    void keep(std::vector<Exchange> &);
    // From now on few handles of each kind stand for all of its objects.
    void use_few_handles() { few_ = true; }
    const std::map<calls::HandleKind, std::vector<HandleId>> &few_handles() { return numbers_; }

    // A live handle of this kind that stands for `driver` on the server.
    template <class T> T handle(T driver)
    {
        const HandleId id = number_for(calls::kHandleKind<T>);
        server_->session.objects.set(id, driver);
        return interpose::Handles::get().handle<T>(id);
    }

private:
    void pass(int from, int to, bool up);
    HandleId number_for(calls::HandleKind);

    interpose::ServerSession *client_;
    worker::Dispatcher *server_;
    std::mutex mutex_;
    std::map<uint16_t, Frame> calls_;
    std::map<uint32_t, Frame> replies_;
    std::vector<Exchange> *kept_ = nullptr;
    bool few_ = false;
    std::map<calls::HandleKind, std::vector<HandleId>> numbers_;
    size_t turn_ = 0;
};

// A connection whose peer has said a stream and has closed. What is sent is thrown away. One that
// lends has one place for all that it lends.
class Spoken : public net::Transport {
public:
    // What it says from now on, which stays.
    void says(const Bytes &stream, bool lends)
    {
        stream_ = &stream, lends_ = lends;
        taken_ = 0;
    }

    const char *name() const override { return "spoken"; }
    ssize_t receive(void *to, size_t bytes, int timeout) override;
    ssize_t send(const iovec *parts, int count, int timeout) override;
    unsigned wait(unsigned events, int) override { return events & Event::kData; }
    size_t worth_reading() const override { return 128 << 10; }
    bool ours() const override { return true; }
    void shutdown() override {}
    void leave_to_parent() override {}
    bool lends() const override { return lends_; }
    net::Lent lend(size_t most) override;

private:
    const Bytes *stream_ = nullptr;
    bool lends_ = false;
    size_t taken_ = 0;
    std::vector<uint8_t> place_{std::vector<uint8_t>(64 << 10)};
};

// Sends one byte stream to a worker session as all that its client ever says. Returns whether the
// session ended as after a well-behaved client; what it answers is thrown away. Each stream finds
// the session with these objects, and with these addresses where there are some.
class Victim {
public:
    explicit Victim(const worker::Objects &objects,
                    std::optional<worker::Addresses> addresses = std::nullopt);
    // How the stream comes.
    enum How : unsigned { plainly = 0, lent = 1, looked_ahead = 2 };
    bool takes(const Bytes &stream, unsigned how = plainly);

private:
    worker::Objects objects_;
    std::optional<worker::Addresses> addresses_;
    Spoken from_;
    worker::Dispatcher *worker_;
};

// Calls f(session) with a session whose server sends `stream` and closes.
template <class Call> CUresult from_broken_server(const Bytes &stream, Call &&f)
{
    int fds[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds)) abort();
    Fd server(fds[1]);
    if (send(server.get(), stream.data(), stream.size(), MSG_NOSIGNAL) !=
        static_cast<ssize_t>(stream.size()))
        abort();
    shutdown(server.get(), SHUT_WR);
    interpose::ServerSession broken(std::make_unique<net::SocketTransport>(Fd(fds[0])), "broken");
    interpose::ServerSession *good = interpose::session();
    use_session(&broken);
    const CUresult r = f(broken);
    use_session(good);
    return r;
}

// Damaged forms of one frame: cut after each byte, shortened in itself, and with every byte and
// every four and eight bytes set to values that lie about lengths. Calls `use` with each; `whole`
// says that the header's length is right.
template <class Use> void damage(const Frame &frame, Use &&use)
{
    const Bytes good = frame.bytes();
    const size_t limit = std::min<size_t>(good.size(), 400);
    for (size_t n = 0; n < limit; n++)
        use(Bytes(good.begin(), good.begin() + static_cast<ptrdiff_t>(n)), false);
    for (size_t n = sizeof(wire::FrameHeader); n < limit; n++) {
        Bytes cut(good.begin(), good.begin() + static_cast<ptrdiff_t>(n));
        const auto bytes = static_cast<uint32_t>(n - sizeof(wire::FrameHeader));
        memcpy(cut.data(), &bytes, sizeof bytes);
        use(cut, true);
    }
    for (size_t at = 0; at < limit; at++) {
        for (uint64_t value : {0x00ull, 0xffull, 0x80ull ^ good[at], 1ull + good[at]}) {
            Bytes b = good;
            b[at] = static_cast<uint8_t>(value);
            use(b, false);
        }
        for (auto [value, n] :
             {std::pair{~0ull, 4}, {~0ull, 8}, {0x7fffffffull, 4}, {0x100000ull, 8}}) {
            Bytes b = good;
            memcpy(&b[at], &value, std::min<size_t>(static_cast<size_t>(n), b.size() - at));
            use(b, false);
        }
    }
}

// A row whose arguments need no hand-written code on either side of the wire, so that random ones
// may be sent.
template <CallId Id> consteval bool is_plain()
{
    constexpr calls::CallInfo info = calls::Row<Id>::info;
    if constexpr (!calls::is_sent(info) || calls::by_server(info.code))
        return false;
    else
        return []<class... A>(CUresult (*)(A...)) {
            constexpr auto roles = calls::roles<Id>();
            size_t i = 0;
            bool all = true;
            [[maybe_unused]] auto look = [&]<class T>(std::type_identity<T>) {
                const RoleKind k = roles[i++].kind;
                using V = interpose::detail::Pointee<T>;
                // A struct with handles or pointers in it must make sense.
                if constexpr (std::is_pointer_v<T> && std::is_class_v<V>)
                    if (interpose::Carried<V>::value) all = false;
                const bool array = k == RoleKind::ref || k == RoleKind::in_n ||
                                   k == RoleKind::out_n;
                const bool simple = k == RoleKind::in || k == RoleKind::ends ||
                                    k == RoleKind::out || k == RoleKind::str ||
                                    k == RoleKind::text || array;
                if (!simple || (array && calls::kIsHandle<V>)) all = false;
            };
            (look(std::type_identity<A>()), ...);
            return all;
        }(typename calls::Row<Id>::Function(nullptr));
}

}  // namespace rgpu::test
