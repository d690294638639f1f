// SPDX-License-Identifier: Apache-2.0
// The two ends and the tap.
#include "t/unit/recorder/support.h"

#include <dlfcn.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>

#include "interpose/base/log.h"
#include "interpose/stub/by_hand.h"
#include "wire/bodies.h"

namespace rgpu::test {

namespace {

void *library;

template <class F> F symbol(const char *name)
{
    void *p = dlsym(library, name);
    if (!p) fprintf(stderr, "%s\n", dlerror()), abort();
    return reinterpret_cast<F>(p);
}

bool read_all(int fd, void *to, size_t n)
{
    for (auto p = static_cast<char *>(to); n;) {
        const ssize_t got = recv(fd, p, n, 0);
        if (got <= 0) return false;
        p += got, n -= static_cast<size_t>(got);
    }
    return true;
}

void write_all(int fd, const Bytes &b)
{
    for (size_t at = 0; at < b.size();) {
        const ssize_t n = send(fd, b.data() + at, b.size() - at, MSG_NOSIGNAL);
        if (n <= 0) return;
        at += static_cast<size_t>(n);
    }
}

std::pair<int, int> two_sockets()
{
    int fds[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds)) perror("socketpair"), abort();
    return {fds[0], fds[1]};
}

void read_to_the_end(int fd)
{
    char buffer[1 << 16];
    while (recv(fd, buffer, sizeof buffer, 0) > 0) {}
}

worker::Console &console()
{
    static worker::Console &c = *new worker::Console;
    return c;
}

}  // namespace

void use_recorder()
{
    auto driver = worker::Driver::open(RGPU_RECORDER);
    if (!driver) fprintf(stderr, "%s\n", driver.error().text.c_str()), abort();
    worker::set_driver(*driver);
    library = dlopen(RGPU_RECORDER, RTLD_NOW);
}

Note note_of(CallId id)
{
    Note n;
    symbol<void (*)(uint16_t, Note *)>("rgpu_recorder_note")(static_cast<uint16_t>(id), &n);
    return n;
}

void answer(CUresult result) { symbol<void (*)(CUresult)>("rgpu_recorder_answer")(result); }

void use_session(interpose::ServerSession *s)
{
    interpose::set_servers({s}, {});
    interpose::set_initialized();
}
void use_context(HandleId id) { interpose::set_current(id); }

Bytes Frame::bytes() const
{
    Bytes b;
    recorder::add(b, header);
    recorder::add(b, body.data(), body.size());
    return b;
}

Wire::Wire()
{
    auto [client_end, up_in] = two_sockets();
    auto [up_out, server_end] = two_sockets();
    client_ = new interpose::ServerSession(std::make_unique<net::SocketTransport>(Fd(client_end)),
                                           "test");
    server_ = new worker::Dispatcher(server_end, console(), {});
    std::thread([this, in = up_in, out = up_out] { pass(in, out, true); }).detach();
    std::thread([this, in = up_out, out = up_in] { pass(in, out, false); }).detach();
    std::thread([this] {
        if (auto r = server_->run(); !r)
            fprintf(stderr, "the worker closed the connection: %s\n", r.error().text.c_str()),
                abort();
    }).detach();
    use_session(client_);
    use_context(
        interpose::Handles::get().id(handle(reinterpret_cast<CUcontext>(0xc047e47))).value());
}

void Wire::pass(int from, int to, bool up)
{
    for (Frame f; read_all(from, &f.header, sizeof f.header);) {
        f.body.resize(f.header.bytes);
        if (!read_all(from, f.body.data(), f.body.size())) return;
        {
            std::lock_guard lock(mutex_);
            if (up)
                calls_[f.header.type] = f;
            else
                replies_[f.header.sequence] = f;
            if (kept_ && up)
                kept_->push_back({f, {}});
            else if (kept_)
                for (auto e = kept_->rbegin(); e != kept_->rend(); e++)
                    if (e->call.header.sequence == f.header.sequence) {
                        e->reply = f;
                        break;
                    }
        }
        write_all(to, f.bytes());
    }
}

CUresult Wire::barrier()
{
    size_t free = 0, total = 0;
    return interpose::remote<CallId::cuMemGetInfo_v2>(&free, &total);
}

Frame Wire::last_call(CallId id)
{
    std::lock_guard lock(mutex_);
    return calls_[static_cast<uint16_t>(id)];
}

std::optional<Frame> Wire::reply_to(uint32_t sequence)
{
    std::lock_guard lock(mutex_);
    auto it = replies_.find(sequence);
    return it == replies_.end() ? std::nullopt : std::optional(it->second);
}

void Wire::keep(std::vector<Exchange> &to)
{
    std::lock_guard lock(mutex_);
    kept_ = &to;
}

HandleId Wire::number_for(calls::HandleKind kind)
{
    constexpr size_t kFew = 3;
    interpose::Handles &all = interpose::Handles::get();
    if (!few_) return all.make(kind);
    std::vector<HandleId> &numbers = numbers_[kind];
    std::erase_if(numbers, [&](HandleId id) { return all.at(id)->kind != kind; });
    if (numbers.size() < kFew) return numbers.emplace_back(all.make(kind));
    return numbers[turn_++ % kFew];
}

std::map<uint16_t, Frame> Wire::last_calls()
{
    std::lock_guard lock(mutex_);
    return calls_;
}

Victim::Victim(const worker::Objects &objects, std::optional<worker::Addresses> addresses)
    : objects_(objects), addresses_(std::move(addresses))
{
    auto [mine, its] = two_sockets();
    worker_ = new worker::Dispatcher(its, console(), {});
    worker_->session.staging.use(from_);
    worker_->session.sender.use(from_);
    std::thread(read_to_the_end, mine).detach();
}

bool Victim::takes(const Bytes &stream, unsigned how)
{
    from_.says(stream, how & lent);
    worker::Input &input = worker_->session.input;
    input = worker::Input(from_);
    worker_->session.objects = objects_;
    if (addresses_) worker_->session.addresses = *addresses_;
    if (how & looked_ahead) {
        const worker::Input::Away away(input, true);
        std::this_thread::sleep_for(worker::Input::kAwayForLong);
        input.look_ahead([](const wire::FrameHeader &h, const uint8_t *) { return h.type % 2; });
    }
    return worker_->run().has_value();
}

// What could be lent, the bytes of a copy, does not come with the frame in front of it.
ssize_t Spoken::receive(void *to, size_t bytes, int)
{
    constexpr size_t kFront = sizeof(wire::FrameHeader) + wire::CopyTarget::kBytes;
    const size_t n = std::min(lends_ ? std::min(bytes, kFront) : bytes, stream_->size() - taken_);
    if (n) memcpy(to, stream_->data() + taken_, n);
    taken_ += n;
    return static_cast<ssize_t>(n);
}

ssize_t Spoken::send(const iovec *parts, int count, int)
{
    size_t n = 0;
    for (int i = 0; i < count; i++) n += parts[i].iov_len;
    return static_cast<ssize_t>(n);
}

net::Lent Spoken::lend(size_t most)
{
    const ssize_t n = receive(place_.data(), most, 0);
    if (!n) return {};
    return {place_.data(), static_cast<size_t>(n), place_.data(), place_.size()};
}

}  // namespace rgpu::test

// --- in place of interpose/base/log.cc

namespace rgpu::interpose {

void say(const char *, ...) {}

}  // namespace rgpu::interpose
