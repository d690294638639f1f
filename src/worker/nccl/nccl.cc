// SPDX-License-Identifier: Apache-2.0
#include "worker/nccl/nccl.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>

#include "wire/nccl.h"
#include "worker/driver/driver.h"
#include "worker/limits/metering.h"
#include "worker/session/stream_order.h"

namespace rgpu::worker::nccl {
namespace {

using namespace std::chrono_literals;

constexpr const char *kShare =
    "rgpu: NCCL needs whole GPUs, and this lease has shares of them: take whole ones (leave out "
    "--rgpu-share, or rgpu run -p)";
constexpr const char *kNotOffered =
    "rgpu: this GPU server does not offer NCCL ([rgpud] nccl in its rgpu.conf)";
constexpr const char *kTooMany =
    "rgpu: more than 256 threads of this program wait for NCCL at the same time";

bool asks_for_version(const std::vector<Request> &requests)
{
    return requests.size() == 1 && requests[0].function().name == "ncclGetVersion";
}

}  // namespace

Result<std::vector<std::string>> Nccl::read_variables(wire::Reader &r)
{
    const uint32_t count = r.value<uint32_t>();
    if (count > wire::kMostNcclVariables) return error(ErrorKind::invalid, "too many variables");
    std::vector<std::string> all;
    for (uint32_t i = 0; i < count; i++) {
        const std::string_view one = r.string();
        const size_t equals = one.find('=');
        // The client's list may be longer than this one: another version's.
        if (equals != one.npos && calls::nccl_variable(one.substr(0, equals)) &&
            calls::nccl_value(one.substr(equals + 1)))
            all.emplace_back(one);
    }
    return all;
}

Result<Nccl::Job> Nccl::read(const wire::FrameHeader &h, wire::Reader r)
{
    Job job;
    job.sequence = h.sequence;
    auto variables = read_variables(r);
    if (!variables) return std::move(variables).error();
    if (!variables_ || !variables->empty())
        variables_ = std::make_shared<const std::vector<std::string>>(std::move(*variables));
    job.variables = variables_;
    job.grouped = r.value<uint8_t>();
    const uint32_t count = r.value<uint32_t>();
    if (!count || count > wire::kMostNcclCalls || (count > 1 && !job.grouped))
        return error(ErrorKind::invalid, "%u calls of NCCL", count);
    for (uint32_t i = 0; i < count; i++) {
        auto request = Request::read(r, session_, objects_);
        if (!request) return std::move(request).error();
        if (job.grouped && request->function().way != calls::NcclWay::grouped)
            return error(ErrorKind::invalid, "%s in a group", request->function().name.data());
        job.requests.push_back(std::move(*request));
    }
    if (!r.at_end()) return misfit();
    return job;
}

Result<void> Nccl::take(const wire::FrameHeader &h)
{
    if (h.bytes > wire::kMaxCallBytes || !(h.flags & wire::kWantsReply))
        return error(ErrorKind::invalid, "a call of NCCL of %u bytes", h.bytes);
    auto body = session_.input.body(h.bytes);
    if (!body) return std::move(body).error();
    Metering::here().asked();
    auto job = read(h, wire::Reader(*body, h.bytes));
    if (!job) return std::move(job).error().in("NCCL");
    // What came before has reached the driver when NCCL is called.
    if (session_.copies.any_open()) close_copies(session_);
    if (!is_allowed(*job)) return {};
    begin(*job);
    // A function is copied, a job is not.
    session_.waiters.run([this, shared = std::make_shared<Job>(std::move(*job))] { run(*shared); });
    return {};
}

bool Nccl::is_allowed(const Job &job)
{
    if (start_.nccl.empty())
        return refuse(job.sequence, calls::kNcclSystemError, kNotOffered), false;
    if (!nccl::is_allowed(start_) && !asks_for_version(job.requests))
        return refuse(job.sequence, calls::kNcclInvalidUsage, kShare), false;
    for (const Request &r : job.requests)
        if (r.refusal()) {
            refuse(job.sequence, r.refusal(),
                   "rgpu: " + std::string(r.function().name) + ": " + r.why());
            return false;
        }
    std::lock_guard lock(mutex_);
    if (under_way_ < kMostAtOnce) return true;
    return refuse(job.sequence, calls::kNcclSystemError, kTooMany), false;
}

void Nccl::refuse(uint32_t sequence, int result, const std::string &why)
{
    std::vector<uint8_t> body;
    wire::Writer w(body);
    w.value(result);
    w.string(why);
    session_.sender.reply(sequence, CUDA_SUCCESS, body);
}

void Nccl::begin(const Job &job)
{
    std::lock_guard lock(mutex_);
    under_way_++;
    for (const Request &r : job.requests) {
        for (Communicator *c : r.uses()) c->uses++;
        for (Communicator *c : r.makes()) c->uses++;
    }
}

void Nccl::end(const Job &job)
{
    std::lock_guard lock(mutex_);
    under_way_--;
    for (const Request &r : job.requests) {
        for (Communicator *c : r.uses()) c->uses--;
        for (Communicator *c : r.makes()) c->uses--, c->being_made = false;
    }
    changed_.notify_all();
}

// Destroying one that another thread uses is the program's mistake, and would be this process's.
// Aborting is for just that: it waits until there is something to abort.
void Nccl::wait_for_others(const Job &job)
{
    std::unique_lock lock(mutex_);
    for (const Request &r : job.requests) {
        Communicator *const c = r.ends();
        if (!c) continue;
        const bool aborts = r.function().name == "ncclCommAbort";
        const auto own = std::count_if(
            job.requests.begin(), job.requests.end(),
            [c](const Request &o) { return std::count(o.uses().begin(), o.uses().end(), c); });
        const auto may_go_on = [&] {
            return aborts ? c->real_now() || !c->being_made : c->uses <= own;
        };
        // NCCL tells nobody that it has begun to make one.
        while (!may_go_on()) changed_.wait_for(lock, 5ms);
    }
}

int Nccl::carry_out(Job &job)
{
    if (!job.grouped) return job.requests[0].carry_out(library_);
    using Group = int (*)();
    const auto start = reinterpret_cast<Group>(library_.function("ncclGroupStart"));
    const auto end = reinterpret_cast<Group>(library_.function("ncclGroupEnd"));
    if (!start || !end) return calls::kNcclInternalError;
    if (int r = start()) return r;
    int first = calls::kNcclSuccess;
    for (Request &r : job.requests)
        if (int failed = r.carry_out(library_);
            failed && failed != calls::kNcclInProgress && !first)
            first = failed;
    const int ended = end();
    return first ? first : ended;
}

void Nccl::run(Job &job)
{
    std::vector<uint8_t> body;
    wire::Writer w(body);
    if (auto opened = library_.open(*job.variables); !opened) {
        w.value(int{calls::kNcclSystemError});
        w.string("rgpu: " + opened.error().text);
    } else {
        wait_for_others(job);
        const int result = carry_out(job);
        for (Request &r : job.requests) r.learn(library_, result);
        const bool failed = result != calls::kNcclSuccess && result != calls::kNcclInProgress;
        w.value(result);
        w.string(failed ? library_.last_error() : "");
        for (const Request &r : job.requests)
            if (!failed) r.write(w);
    }
    end(job);
    session_.send_past();
    session_.sender.reply(job.sequence, CUDA_SUCCESS, body);
}

}  // namespace rgpu::worker::nccl
