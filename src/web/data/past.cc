// SPDX-License-Identifier: Apache-2.0
// Prometheus' HTTP API: https://prometheus.io/docs/prometheus/latest/querying/api/, "Range
// queries".
#include "web/data/past.h"

#include <algorithm>
#include <cctype>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "pool/client/http.h"
#include "pool/messages/fields.h"

namespace rgpu::web {
namespace {

using pool::Json;

constexpr std::string_view kScheme = "http://";
constexpr int64_t kDayS = 24 * 3600;
constexpr Milliseconds kPatience{10'000};
// An answer is good for so long; one that failed is asked for again sooner.
constexpr std::chrono::seconds kGood{60}, kBad{5};
constexpr size_t kMostKept = 64;

// What each number of a point is called there. A server's part of it has its name where $ stands.
constexpr struct {
    float Point::*number;
    const char *expression;
} kExpressions[] = {
    {&Point::gpus, "sum(rgpu_gpus$)"},
    {&Point::drained, "sum(rgpu_gpu_drained$)"},
    {&Point::held, "sum(1-rgpu_gpu_share_free$)"},
    {&Point::use, "sum(rgpu_gpu_used_ratio$)"},
    {&Point::memory, "sum(rgpu_gpu_memory_bytes$)"},
    {&Point::memory_held, "sum(rgpu_gpu_memory_bytes$-rgpu_gpu_memory_free_bytes$)"},
    {&Point::memory_used, "sum(rgpu_gpu_memory_used_bytes$)"},
};

// As a value of a label in PromQL.
std::string quoted(const std::string &text)
{
    std::string out = "\"";
    for (const char c : text) {
        if (c == '"' || c == '\\') out += '\\';
        out += c;
    }
    return out + "\"";
}

std::string filled_in(std::string_view expression, const std::string &server)
{
    std::string out;
    for (const char c : expression)
        if (c != '$')
            out += c;
        else if (!server.empty())
            out += "{server=" + quoted(server) + "}";
    return out;
}

std::string percent_encoded(const std::string &text)
{
    std::string out;
    for (const char c : text) {
        char code[4];
        snprintf(code, sizeof code, "%%%02X", static_cast<unsigned char>(c));
        out += isalnum(static_cast<unsigned char>(c)) ? std::string(1, c) : std::string(code);
    }
    return out;
}

Error wrong_answer(const std::string &why)
{
    return error(ErrorKind::unavailable, "Prometheus: %s", why.c_str());
}

// [seconds, "number"] of the only series; there is none where nothing was scraped.
Result<void> read(const pool::HttpReply &reply, float Point::*number,
                  std::map<int64_t, Point> &points)
{
    std::string refusal;  // in Prometheus' own words
    const Result<void> known =
        pool::decode<void>(reply.body, [&](const Json &told) -> Result<void> {
            if (told.at("status") != "success") {
                refusal = told.at("error").get<std::string>().substr(0, pool::kMostSentence);
                return {};
            }
            const Json &series = told.at("data").at("result");
            if (series.is_array() && series.empty()) return {};
            for (const Json &pair : series.at(0).at("values")) {
                const double seconds = pair.at(0).get<double>();
                const float value =
                    strtof(pair.at(1).get_ref<const std::string &>().c_str(), nullptr);
                if (!std::isfinite(value) || !(seconds > 0 && seconds < 1e11)) continue;
                const auto ms = static_cast<int64_t>(seconds * 1000);
                points[ms].time_ms = ms;
                points[ms].*number = value;
            }
            return {};
        });
    if (!known)
        return wrong_answer("its answer is none that rgpu web knows (HTTP status " +
                            std::to_string(reply.status) + ")");
    return refusal.empty() ? Result<void>() : wrong_answer(refusal);
}

}  // namespace

Result<void> Past::check() const
{
    const size_t colon = host_.rfind(':');
    if (!is_there() ||
        (address_.starts_with(kScheme) && colon != std::string::npos && colon > 0 &&
         colon + 1 < host_.size() && address_.find_first_of(" \t\r\n?#\"") == std::string::npos))
        return {};
    return error(ErrorKind::invalid,
                 "[web] prometheus \"%s\": it must be like \"http://localhost:9090\"; for TLS, put "
                 "a proxy of this host in between",
                 address_.c_str());
}

Past::Past(std::string prometheus) : address_(std::move(prometheus))
{
    const std::string rest = address_.substr(std::min(kScheme.size(), address_.size()));
    const size_t slash = rest.find('/');
    host_ = rest.substr(0, slash);
    path_ = slash == std::string::npos ? "" : rest.substr(slash);
    while (path_.ends_with('/')) path_.pop_back();
}

Past::~Past() { stop(); }

void Past::start()
{
    if (is_there()) thread_ = std::thread([this] { run(); });
}

void Past::stop()
{
    {
        std::lock_guard lock(mutex_);
        ending_ = true;
        wake_.notify_all();
    }
    if (thread_.joinable()) thread_.join();
}

std::optional<Result<std::vector<Point>>> Past::find(const std::string &server, int days)
{
    std::lock_guard lock(mutex_);
    const auto [at, added] = answers_.try_emplace({server, days});
    Answer &answer = at->second;
    if (answer.points && now() - answer.asked < (*answer.points ? kGood : kBad))
        return answer.points;
    answer.points.reset();
    if (added && answers_.size() > kMostKept) {
        const auto old = std::find_if(answers_.begin(), answers_.end(),
                                      [](const auto &one) { return one.second.points; });
        if (old == answers_.end()) {
            answers_.erase(at);
            return Result<std::vector<Point>>(error(
                ErrorKind::unavailable,
                "Prometheus: %zu questions wait for it already; try again in a minute", kMostKept));
        }
        answers_.erase(old);
    }
    wake_.notify_all();
    return std::nullopt;
}

void Past::run()
{
    std::unique_lock lock(mutex_);
    while (!ending_) {
        auto wanted = answers_.begin();
        while (wanted != answers_.end() && wanted->second.points) ++wanted;
        if (wanted == answers_.end()) {
            wake_.wait(lock);
            continue;
        }
        const Key key = wanted->first;
        lock.unlock();
        Result<std::vector<Point>> points = ask(key);
        lock.lock();
        answers_[key] = {std::move(points), now()};
    }
}

Result<std::vector<Point>> Past::ask(const Key &key) const
{
    const auto &[server, days] = key;
    using namespace std::chrono;
    const int64_t end_s = duration_cast<seconds>(system_clock::now().time_since_epoch()).count();
    // The last point is that of now.
    const std::string times = "&start=" + std::to_string(end_s - days * kDayS) +
                              "&end=" + std::to_string(end_s) +
                              "&step=" + std::to_string(days * kDayS / int64_t{History::kPoints});
    std::vector<pool::HttpCall> calls;
    for (const auto &[number, expression] : kExpressions)
        calls.push_back({"GET", host_,
                         path_ + "/api/v1/query_range?query=" +
                             percent_encoded(filled_in(expression, server)) + times,
                         "", "", ""});
    pool::Http http;
    std::vector<Result<pool::HttpReply>> replies = http.perform(calls, kPatience);
    std::map<int64_t, Point> points;
    for (size_t i = 0; i < replies.size(); ++i) {
        if (!replies[i]) return wrong_answer(replies[i].error().text);
        if (Result<void> good = read(*replies[i], kExpressions[i].number, points); !good)
            return good.error();
    }
    std::vector<Point> out;
    for (const auto &[ms, point] : points) out.push_back(point);
    for (Point &point : out) point.waiting = kUnknown;
    return out;
}

}  // namespace rgpu::web
