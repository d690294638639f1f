// SPDX-License-Identifier: Apache-2.0
#include "softgpu/driver/state/stream.h"

#include "softgpu/driver/base/printing.h"
#include "softgpu/driver/state/driver.h"

namespace rgpu::softgpu::driver {

namespace {

std::atomic<uint64_t> next_stream_id = 1;

// Numbers of threads: never used twice, as pthread_self() is.
uint64_t thread_number()
{
    static std::atomic<uint64_t> next = 1;
    thread_local uint64_t mine = 0;
    if (!mine) mine = next++;
    return mine;
}

}  // namespace

// --- one stream

Stream::Stream(Streams &all, Context &c, Kind k, unsigned f, int p)
    : context(c), kind(k), flags(f), priority(p), id(next_stream_id++), streams_(all)
{}

TaskRef Stream::make(std::function<void()> work)
{
    return std::make_shared<Task>([&streams = streams_, work = std::move(work)] {
        if (!streams.error()) work();
    });
}

TaskRef Stream::enqueue(std::function<void()> work, std::vector<TaskRef> after)
{
    TaskRef task = make(std::move(work));
    streams_.order(*this, task, std::move(after), false);
    return task;
}

CUresult Stream::run(std::function<void()> work)
{
    TaskRef task = make(std::move(work));
    streams_.order(*this, task, {}, true);
    driver().scheduler.run_by_caller(task);
    flush_prints();
    return streams_.error();
}

bool Stream::idle()
{
    for (const TaskRef &t : streams_.tails_of(*this))
        if (!driver().scheduler.done(t)) return false;
    return true;
}

CUresult Stream::synchronize()
{
    for (const TaskRef &t : streams_.tails_of(*this)) driver().scheduler.wait(t);
    flush_prints();
    return streams_.error();
}

// --- all of a context

Streams::Streams(Context &c) : context_(c), legacy_(make(Stream::Kind::legacy, 0, 0)) {}

std::shared_ptr<Stream> Streams::make(Stream::Kind kind, unsigned flags, int priority)
{
    return std::make_shared<Stream>(*this, context_, kind, flags, priority);
}

std::shared_ptr<Stream> Streams::legacy()
{
    std::lock_guard lock(mutex_);
    return legacy_;
}

std::shared_ptr<Stream> Streams::of_thread()
{
    std::lock_guard lock(mutex_);
    std::shared_ptr<Stream> &s = thread_streams_[thread_number()];
    if (!s) {
        s = make(Stream::Kind::per_thread, 0, 0);
        streams_.insert(s.get());
    }
    return s;
}

std::shared_ptr<Stream> Streams::create(unsigned flags, int priority)
{
    auto s = make(Stream::Kind::user, flags, priority);
    std::lock_guard lock(mutex_);
    streams_.insert(s.get());
    return s;
}

void Streams::remove(const Stream *s)
{
    std::lock_guard lock(mutex_);
    if (!streams_.erase(const_cast<Stream *>(s))) return;
    const Scheduler &scheduler = driver().scheduler;
    std::erase_if(left_, [&](const TaskRef &t) { return scheduler.done(t); });
    if (!scheduler.done(s->tail_)) left_.push_back(s->tail_);
}

void Streams::clear()
{
    std::lock_guard lock(mutex_);
    legacy_ = make(Stream::Kind::legacy, 0, 0);
    thread_streams_.clear();
    streams_.clear();
    left_.clear();
    error_ = CUDA_SUCCESS;
}

void Streams::fail(CUresult rc)
{
    CUresult none = CUDA_SUCCESS;
    error_.compare_exchange_strong(none, rc);
}

// Under the lock: what a new task of the stream comes after.
void Streams::add_predecessors(const Stream &stream, std::vector<TaskRef> &after)
{
    after.push_back(stream.tail_);
    // The legacy default stream waits for all blocking streams, and they for it.
    if (stream.kind == Stream::Kind::legacy) {
        for (Stream *other : streams_)
            if (other->blocking() && other->tail_) after.push_back(other->tail_);
    } else if (stream.blocking()) {
        after.push_back(legacy_->tail_);
    }
}

void Streams::order(Stream &stream, const TaskRef &task, std::vector<TaskRef> after, bool by_caller)
{
    Scheduler &scheduler = driver().scheduler;
    std::lock_guard lock(mutex_);
    add_predecessors(stream, after);
    if (by_caller)
        scheduler.add_for_caller(task, after);
    else
        scheduler.add(task, after);
    stream.tail_ = task;
}

void Streams::order_group(Stream &stream, const TaskRef &first, const TaskRef &last,
                          std::vector<TaskRef> after)
{
    Scheduler &scheduler = driver().scheduler;
    std::lock_guard lock(mutex_);
    add_predecessors(stream, after);
    scheduler.hold(last);
    scheduler.add(first, after);
    stream.tail_ = last;
}

std::vector<TaskRef> Streams::tails()
{
    std::lock_guard lock(mutex_);
    std::vector<TaskRef> all = left_;
    if (legacy_->tail_) all.push_back(legacy_->tail_);
    for (Stream *s : streams_)
        if (s->tail_) all.push_back(s->tail_);
    return all;
}

std::vector<TaskRef> Streams::tails_of(const Stream &stream)
{
    std::lock_guard lock(mutex_);
    std::vector<TaskRef> all;
    if (stream.tail_) all.push_back(stream.tail_);
    if (stream.kind == Stream::Kind::legacy)
        for (Stream *s : streams_)
            if (s->blocking() && s->tail_) all.push_back(s->tail_);
    return all;
}

void Streams::keep(std::shared_ptr<const void> object)
{
    std::vector<TaskRef> after = tails();
    auto task = std::make_shared<Task>([object = std::move(object)] {});
    driver().scheduler.add(task, after);
}

CUresult Streams::synchronize()
{
    for (const TaskRef &t : tails()) driver().scheduler.wait(t);
    flush_prints();
    return error();
}

}  // namespace rgpu::softgpu::driver
