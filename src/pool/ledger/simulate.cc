// SPDX-License-Identifier: Apache-2.0
#include "pool/ledger/simulate.h"

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <numeric>
#include <queue>
#include <set>
#include <sstream>
#include <tuple>

#include "pool/ledger/span.h"
#include "util/defaults.h"

namespace rgpu::pool {
namespace {

class Simulation {
public:
    Simulation(const Trace &trace, Policy policy, bool spans)
        : trace_(trace), policy_(policy), spans_(spans)
    {
        for (const Trace::Servers &kind : trace.servers)
            for (int i = 0; i < kind.count; ++i) servers_.push_back(idle(kind));
        for (const auto &server : servers_)
            capacity_ += static_cast<int64_t>(server.size()) * kWholeGpu;
        whole_free_ = capacity_ / kWholeGpu;
        find_forms();
    }

    Simulated run()
    {
        Simulated result;
        result.policy = policy_;
        result.servers = static_cast<int>(servers_.size());
        result.gpus = static_cast<int>(whole_free_);
        const auto &requests = trace_.requests;
        if (requests.empty()) return result;
        time_ = start_ = requests.front().at;
        end_ = requests.back().at;
        for (size_t next = 0; next < requests.size() || !ends_.empty();) {
            bool arrives = next < requests.size() &&
                           (ends_.empty() || requests[next].at < ends_.top().at);
            advance(arrives ? requests[next].at : ends_.top().at);
            if (arrives) {
                arrive(next++);
                continue;
            }
            // What ends together is given back together, and then given out.
            for (double now = time_; !ends_.empty() && ends_.top().at <= now; ends_.pop())
                give_back(ends_.top());
            serve_waiting();
        }
        finish(result);
        return result;
    }

private:
    using Server = std::vector<GpuState>;
    struct Candidate {
        Fit fit;
        size_t server;
    };
    struct Before {
        Policy policy;
        bool operator()(const Candidate &a, const Candidate &b) const
        {
            if (better(a.fit, b.fit, policy)) return true;
            return !better(b.fit, a.fit, policy) && a.server < b.server;
        }
    };
    using Candidates = std::set<Candidate, Before>;
    // Requests of one form: the servers that could serve one now, the best first, and those who
    // wait.
    struct Form {
        Request request;
        bool possible = false;
        Candidates candidates;
        std::vector<Candidates::iterator> of_server;  // end(): it cannot now
        std::vector<Choice> parts;                    // of each server, where requests span
        int64_t in_parts = 0;                         // GPUs in all of them
        std::deque<size_t> waiting;
    };
    struct End {
        double at;
        size_t request, server;
        std::vector<size_t> gpus;
        bool operator<(const End &other) const { return at > other.at; }  // the first end is on top
    };

    static Server idle(const Trace::Servers &kind)
    {
        Server server(static_cast<size_t>(kind.gpus));
        for (size_t i = 0; i < server.size(); ++i) {
            server[i].index = static_cast<int>(i);
            server[i].memory = server[i].free_memory = kind.memory;
        }
        return server;
    }

    void find_forms()
    {
        std::map<std::tuple<int, int, int, uint64_t>, size_t> known;
        for (const Trace::Arrival &arrival : trace_.requests) {
            const Request &r = arrival.request;
            auto [form, fresh] =
                known.try_emplace({r.gpus, r.share, r.most, r.memory}, forms_.size());
            form_of_.push_back(form->second);
            if (fresh) {
                forms_.push_back(std::make_unique<Form>());
                forms_.back()->request = r;
                forms_.back()->request.span = spans_ ? "yes" : "";
                forms_.back()->parts.resize(spans_ ? servers_.size() : 0);
                forms_.back()->candidates = Candidates(Before{policy_});
            }
        }
        for (auto &form : forms_) {
            form->of_server.assign(servers_.size(), form->candidates.end());
            for (size_t i = 0; i < servers_.size(); ++i) look_again(*form, i);
            form->possible = can_serve(*form);
        }
    }

    void look_again(Form &form, size_t server)
    {
        auto &place_of = form.of_server[server];
        if (place_of != form.candidates.end()) form.candidates.erase(place_of);
        Placement placement = place(servers_[server], form.request, {}, {}, policy_);
        const int gpus = placement.answer == Answer::now ? static_cast<int>(placement.chosen.size())
                                                         : 0;
        place_of = gpus == form.request.gpus ? form.candidates.insert({placement.fit, server}).first
                                             : form.candidates.end();
        if (!spans_) return;
        form.in_parts += gpus - form.parts[server].gpus;
        form.parts[server] = {gpus, placement.fit};
    }

    bool can_serve(const Form &form) const
    {
        return !form.candidates.empty() || (spans_ && form.in_parts >= form.request.gpus);
    }

    void arrive(size_t request)
    {
        Form &form = *forms_[form_of_[request]];
        if (!form.possible)
            ++never_;
        else if (!can_serve(form))
            form.waiting.push_back(request);
        else
            serve(request);
    }

    void serve(size_t number)
    {
        Form &form = *forms_[form_of_[number]];
        const Trace::Arrival &arrival = trace_.requests[number];
        const std::vector<Part> parts =
            form.candidates.empty()
                ? parts_for(form.request.gpus, form.parts)
                : std::vector<Part>{{form.candidates.begin()->server, form.request.gpus}};
        for (const Part &part : parts) {
            Request request = form.request;
            request.gpus = part.gpus;
            Placement placement = place(servers_[part.choice], request, {}, {}, policy_);
            ends_.push({time_ + arrival.duration, number, part.choice, placement.chosen});
            change(part.choice, placement.chosen, request, -1);
        }
        spanned_ += parts.size() > 1;
        waits_.push_back(time_ - arrival.at);
        gpus_of_wait_.push_back(form.request.gpus);
    }

    void give_back(const End &end)
    {
        change(end.server, end.gpus, trace_.requests[end.request].request, 1);
    }

    void change(size_t server, const std::vector<size_t> &gpus, const Request &request,
                int direction)
    {
        for (size_t i : gpus) {
            GpuState &gpu = servers_[server][i];
            count(gpu, -1);
            uint64_t memory = memory_of(gpu, request);
            gpu.free_share += direction * request.share;
            gpu.free_memory = direction > 0 ? gpu.free_memory + memory : gpu.free_memory - memory;
            count(gpu, 1);
        }
        used_ -= direction * static_cast<int64_t>(gpus.size()) * request.share;
        for (auto &form : forms_) look_again(*form, server);
    }

    void count(const GpuState &gpu, int direction)
    {
        if (gpu.free_share == kWholeGpu)
            whole_free_ += direction;
        else
            broken_free_ += direction * gpu.free_share;
    }

    void serve_waiting()
    {
        for (;;) {
            Form *first = nullptr;
            for (auto &form : forms_)
                if (!form->waiting.empty() && can_serve(*form) &&
                    (!first || form->waiting.front() < first->waiting.front()))
                    first = form.get();
            if (!first) return;
            size_t request = first->waiting.front();
            first->waiting.pop_front();
            serve(request);
        }
    }

    // Lets the time pass, with what is so meanwhile counted as far as requests still come.
    void advance(double to)
    {
        double passed = std::min(to, end_) - std::min(time_, end_);
        time_ = to;
        if (passed <= 0) return;
        used_time_ += passed * static_cast<double>(used_);
        free_time_ += passed * static_cast<double>(capacity_ - used_);
        broken_time_ += passed * static_cast<double>(broken_free_);
        for (const auto &form : forms_) {
            double waiting = passed * static_cast<double>(form->waiting.size());
            const Request &r = form->request;
            bool enough = r.share == kWholeGpu
                              ? whole_free_ >= r.gpus
                              : capacity_ - used_ >= static_cast<int64_t>(r.gpus) * r.share;
            waiting_time_ += waiting;
            scattered_time_ += enough ? waiting : 0;
        }
    }

    void finish(Simulated &result)
    {
        auto part = [](double of, double all) { return all > 0 ? of / all : 0; };
        result.requests = waits_.size();
        result.never = never_;
        result.spanned = spanned_;
        result.span = end_ - start_;
        result.utilisation = part(used_time_, static_cast<double>(capacity_) * result.span);
        result.broken = part(broken_time_, free_time_);
        result.scattered = part(scattered_time_, waiting_time_);
        if (waits_.empty()) return;
        result.waited = static_cast<size_t>(
            std::count_if(waits_.begin(), waits_.end(), [](double wait) { return wait > 0; }));
        double sum = std::accumulate(waits_.begin(), waits_.end(), 0.0);
        result.wait_mean = sum / static_cast<double>(waits_.size());
        int most = *std::max_element(gpus_of_wait_.begin(), gpus_of_wait_.end());
        double large = 0, count = 0;
        for (size_t i = 0; i < waits_.size(); ++i)
            if (gpus_of_wait_[i] == most) large += waits_[i], ++count;
        result.wait_large = large / count;
        std::sort(waits_.begin(), waits_.end());
        auto at = [&](double part) {
            return waits_[static_cast<size_t>(part * static_cast<double>(waits_.size() - 1))];
        };
        result.wait_p50 = at(0.5);
        result.wait_p95 = at(0.95);
        result.wait_max = waits_.back();
    }

    const Trace &trace_;
    Policy policy_;
    bool spans_;
    std::vector<Server> servers_;
    std::vector<std::unique_ptr<Form>> forms_;
    std::vector<size_t> form_of_;  // of each request
    std::priority_queue<End> ends_;
    double time_ = 0, start_ = 0, end_ = 0;
    int64_t capacity_ = 0, used_ = 0, whole_free_ = 0,
            broken_free_ = 0;  // hundredths, but for whole_free_
    double used_time_ = 0, free_time_ = 0, broken_time_ = 0, waiting_time_ = 0, scattered_time_ = 0;
    size_t never_ = 0, spanned_ = 0;
    std::vector<double> waits_;
    std::vector<int> gpus_of_wait_;
};

Result<void> read_servers(std::istringstream &words, Trace &trace)
{
    Trace::Servers kind;
    std::string memory, more;
    if (!(words >> kind.count >> kind.gpus >> memory) || words >> more || kind.count < 1 ||
        kind.gpus < 1 || kind.gpus > defaults::kMaxGpusOfRequest)
        return error(ErrorKind::invalid, "write servers COUNT GPUS MEMORY, like servers 100 8 80G");
    Result<uint64_t> size = parse_size(memory);
    if (!size) return std::move(size).error();
    kind.memory = *size;
    trace.servers.push_back(kind);
    return {};
}

Result<void> read_request(std::istringstream &words, Trace &trace)
{
    Trace::Arrival arrival;
    std::string share, memory, more;
    Request &request = arrival.request;
    if (!(words >> arrival.at >> request.gpus >> share >> memory >> arrival.duration) ||
        words >> more || arrival.at < 0 || arrival.duration < 0 || request.gpus < 1 ||
        request.gpus > defaults::kMaxGpusOfRequest)
        return error(
            ErrorKind::invalid,
            "write request ARRIVAL GPUS SHARE MEMORY DURATION, like request 12.5 2 100 0 3600");
    Result<ShareRange> range =
        parse_share_range(share.find_first_of("-.%") == share.npos ? share + "%" : share);
    if (!range) return std::move(range).error();
    request.share = range->least;
    request.most = range->most;
    Result<uint64_t> size = parse_size(memory);
    if (!size) return std::move(size).error();
    request.memory = *size;
    trace.requests.push_back(std::move(arrival));
    return {};
}

}  // namespace

Result<Trace> parse_trace(std::string_view text)
{
    Trace trace;
    std::istringstream lines{std::string(text)};
    int number = 0;
    int64_t servers = 0, gpus = 0;
    for (std::string line; std::getline(lines, line);) {
        ++number;
        line.resize(std::min(line.find('#'), line.size()));
        std::istringstream words(line);
        std::string kind;
        if (!(words >> kind)) continue;
        Result<void> read = kind == "servers"   ? read_servers(words, trace)
                            : kind == "request" ? read_request(words, trace)
                                                : error(ErrorKind::invalid,
                                                        "a line begins with servers or request");
        if (read && kind == "servers") {
            servers += trace.servers.back().count;
            gpus += int64_t{trace.servers.back().count} * trace.servers.back().gpus;
        }
        if (servers > kMostServers || gpus > kMostSimulatedGpus)
            read = error(ErrorKind::invalid, "these are more than %d servers, or %lld GPUs",
                         kMostServers, static_cast<long long>(kMostSimulatedGpus));
        if (!read) return std::move(read).error().in("line " + std::to_string(number));
    }
    if (trace.servers.empty() || trace.requests.empty())
        return error(ErrorKind::invalid, "it has no %s",
                     trace.servers.empty() ? "servers" : "request");
    std::set<std::tuple<int, int, int, uint64_t>> forms;
    for (const Trace::Arrival &arrival : trace.requests)
        forms.insert({arrival.request.gpus, arrival.request.share, arrival.request.most,
                      arrival.request.memory});
    if (forms.size() > kMostForms)
        return error(ErrorKind::invalid,
                     "it has requests of %zu forms (GPUs, share, memory), at most %zu are "
                     "possible: round them",
                     forms.size(), kMostForms);
    std::stable_sort(trace.requests.begin(), trace.requests.end(),
                     [](const Trace::Arrival &a, const Trace::Arrival &b) { return a.at < b.at; });
    return trace;
}

Simulated simulate(const Trace &trace, Policy policy, bool spans)
{
    return Simulation(trace, policy, spans).run();
}

}  // namespace rgpu::pool
