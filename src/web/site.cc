// SPDX-License-Identifier: Apache-2.0
#include "web/site.h"

#include <algorithm>
#include <cstdlib>

#include "pool/messages/fields.h"

namespace rgpu::web {
namespace {

Answer refusal(int status, const Error &why)
{
    return text(status, pool::dump({{"error", why.text}}) + "\n");
}

// JSON has no line ends of its own, which would end the data of an event.
std::string event(const char *name, const std::string &json)
{
    return "event: " + std::string(name) + "\ndata: " + json + "\n\n";
}

}  // namespace

Site::Site(const Config &config, Access access, pool::Client client, Tool tool, Pace pace)
    : access_(std::move(access)), pages_(config.web.chart_library), history_(config.web.history),
      past_(config.web.prometheus),
      watcher_(std::move(client), std::move(tool), pace.watched, pace.unwatched,
               [this](const Seen &seen) { heard(seen); }),
      server_({[this](const Asked &asked) { return answer(asked); },
               [this](const std::string &stream) { return first(stream); },
               [this](const std::string &stream, bool some) { listened(stream, some); }})
{}

Site::~Site() { stop(); }

Result<int> Site::start(const std::string &address)
{
    if (Result<void> good = history_.check(); !good) return good.error();
    if (Result<void> good = past_.check(); !good) return good.error();
    Result<int> port = server_.start(address);
    if (!port) return port;
    watcher_.start();
    past_.start();
    return port;
}

void Site::stop()
{
    server_.stop();
    watcher_.stop();
    past_.stop();
}

Answer Site::answer(const Asked &asked)
{
    if (Result<void> right = access_.right_host(asked); !right) return refusal(421, right.error());
    // Everybody may have them: they say nothing of the pool.
    if (const Answer *page = pages_.find(asked.path)) return *page;
    Result<Viewer> viewer = access_.viewer_of(asked);
    if (!viewer)
        return refusal(viewer.error().kind == ErrorKind::invalid ? 401 : 403, viewer.error());
    return answer_to(*viewer, asked);
}

Answer Site::answer_to(const Viewer &viewer, const Asked &asked)
{
    std::lock_guard lock(mutex_);
    if (asked.path == "/v1/pool") return text(200, pool_json(viewer, servers_for(viewer)) + "\n");
    if (asked.path == "/v1/queue") return text(200, queue_json(seen_.queue, viewer) + "\n");
    if (asked.path == "/v1/job") return job(viewer, asked);
    if (asked.path == "/v1/history") return history(asked);
    if (asked.path == "/v1/events") {
        Answer stream = text(200, "", "text/event-stream");
        stream.stream = viewer.stream();
        viewers_[stream.stream] = viewer;
        return stream;
    }
    return refusal(404, error(ErrorKind::unsupported, "there is no such thing here: see rgpu(1)"));
}

std::vector<std::string> Site::servers_for(const Viewer &viewer) const
{
    std::vector<std::string> out;
    for (const ServerSeen &server : seen_.servers) out.push_back(server_json(server, viewer));
    return out;
}

std::string Site::pool_json(const Viewer &viewer, const std::vector<std::string> &servers) const
{
    std::string out = "{\"time\":" + std::to_string(seen_.time_ms) +
                      ",\"charts\":" + (pages_.has_charts() ? "true" : "false") +
                      ",\"viewer\":" + pool::dump({{"user", viewer.user}, {"all", viewer.all}}) +
                      ",\"servers\":[";
    for (size_t i = 0; i < servers.size(); ++i) out += (i ? "," : "") + servers[i];
    return out + "]}";
}

Answer Site::job(const Viewer &viewer, const Asked &asked) const
{
    const std::string id = asked.parameter("id");
    if (id.empty())
        return refusal(400, error(ErrorKind::invalid, "which job? GET /v1/job needs ?id="));
    std::string life = lives_.json(id, viewer);
    // Whether another's job exists is nobody's business either.
    if (life.empty())
        return refusal(404, error(ErrorKind::unsupported,
                                  "no job of yours of that number has held GPUs of the pool since "
                                  "rgpu web was started"));
    return text(200, life + "\n");
}

Answer Site::history(const Asked &asked)
{
    const std::string server = asked.parameter("server"), days_text = asked.parameter("days");
    const auto named = [&](const ServerSeen &s) { return s.name == server; };
    const auto seen = std::find_if(seen_.servers.begin(), seen_.servers.end(), named);
    if (!server.empty() && seen == seen_.servers.end())
        return refusal(404, error(ErrorKind::unsupported, "rgpu.conf has no server of that name"));
    const int days = days_text.empty() ? 1 : atoi(days_text.c_str());
    if (days < 1 || days > (past_.is_there() ? Past::kMostDays : 1))
        return refusal(400, past_.is_there()
                                ? error(ErrorKind::invalid, "days: from 1 to %d", Past::kMostDays)
                                : error(ErrorKind::invalid,
                                        "days: 1; more are known where [web] prometheus is set"));
    std::vector<Point> points;
    if (days == 1) {
        points = history_.day(server, seen_.time_ms);
    } else {
        // What a server is called in its metrics, which is its own name.
        const bool has_name = !server.empty() && seen->inventory;
        auto found = past_.find(has_name ? seen->inventory->name : server, days);
        if (!found) return text(202, "{}\n");
        if (!*found) return refusal(502, found->error());
        points = std::move(**found);
    }
    return text(200, "{\"days\":" + std::to_string(days) + ",\"most_days\":" +
                         std::to_string(past_.is_there() ? Past::kMostDays : 1) +
                         ",\"points\":" + points_json(points, History::kStepMs * days) + "}\n");
}

std::shared_ptr<const std::string> Site::first(const std::string &stream)
{
    std::lock_guard lock(mutex_);
    const auto viewer = viewers_.find(stream);
    if (viewer == viewers_.end()) return nullptr;
    auto [at, added] = audiences_.try_emplace(stream, Audience{viewer->second, {}, {}});
    Audience &audience = at->second;
    if (added) {
        audience.told = servers_for(audience.viewer);
        audience.queue = queue_json(seen_.queue, audience.viewer);
    }
    return std::make_shared<const std::string>(
        event("pool", pool_json(audience.viewer, audience.told)) + event("queue", audience.queue));
}

void Site::listened(const std::string &stream, bool somebody)
{
    std::lock_guard lock(mutex_);
    if (!somebody) audiences_.erase(stream);
    listeners_ += somebody ? 1 : -1;
    watcher_.look(listeners_ > 0);
}

void Site::heard(const Seen &seen)
{
    std::lock_guard lock(mutex_);
    seen_ = seen;
    Lives::MemoryUsed memory;
    for (const ServerSeen &server : seen.servers)
        for (size_t i = 0; server.sharing && i < server.sharing->gpus.size(); ++i)
            for (const pool::TenantShare &tenant : server.sharing->gpus[i].tenants)
                memory[tenant.lease] += tenant.memory_used;
    lives_.look(seen.time_ms, seen.usages, memory);
    history_.look(seen);
    for (auto &[stream, audience] : audiences_) tell(stream, audience);
}

void Site::tell(const std::string &stream, Audience &audience)
{
    std::string events;
    std::vector<std::string> now = servers_for(audience.viewer);
    now.swap(audience.told);
    if (now.size() != audience.told.size()) {  // it came before the first round
        events = event("pool", pool_json(audience.viewer, audience.told));
    } else {
        std::string changed;
        for (size_t i = 0; i < now.size(); ++i)
            if (now[i] != audience.told[i])
                changed += (changed.empty() ? "\"" : ",\"") + std::to_string(i) +
                           "\":" + audience.told[i];
        events = event("changes", "{\"time\":" + std::to_string(seen_.time_ms) + ",\"servers\":{" +
                                      changed + "}}");
    }
    events += event("jobs", lives_.last_json(audience.viewer));
    std::string queue = queue_json(seen_.queue, audience.viewer);
    if (queue != audience.queue) events += event("queue", queue);
    audience.queue = std::move(queue);
    server_.publish(stream, std::make_shared<const std::string>(std::move(events)));
}

}  // namespace rgpu::web
