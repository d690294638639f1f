// SPDX-License-Identifier: Apache-2.0
#include "web/data/watcher.h"

#include <chrono>

namespace rgpu::web {
namespace {

// rgpud itself looks at its health each minute ([rgpud] health_check).
constexpr std::chrono::seconds kHealthPeriod{30};
// squeue costs slurmctld more than a question costs rgpud.
constexpr std::chrono::seconds kSlurmPeriod{5};

int64_t wall_ms()
{
    using namespace std::chrono;
    return duration_cast<milliseconds>(system_clock::now().time_since_epoch()).count();
}

bool is_due(Time &asked, std::chrono::seconds period)
{
    if (asked != Time{} && now() - asked < period) return false;
    asked = now();
    return true;
}

}  // namespace

Watcher::Watcher(pool::Client client, Tool tool, Milliseconds watched, Milliseconds unwatched,
                 Told told)
    : client_(std::move(client)), tool_(std::move(tool)), watched_(watched), unwatched_(unwatched),
      told_(std::move(told))
{
    slurm_->queue.failure = "it has not been asked yet";
}

Watcher::~Watcher() { stop(); }

void Watcher::start()
{
    thread_ = std::thread([this] { run(); });
    std::thread([slurm = slurm_, tool = tool_] { run_slurm(slurm, tool); }).detach();
}

void Watcher::look(bool somebody)
{
    std::lock_guard lock(mutex_);
    at_once_ = at_once_ || (somebody && !somebody_);
    somebody_ = somebody;
    wake_.notify_all();
}

void Watcher::stop()
{
    {
        std::lock_guard lock(mutex_);
        ending_ = true;
        wake_.notify_all();
    }
    {
        std::lock_guard lock(slurm_->mutex);
        slurm_->ending = true;
        slurm_->wake.notify_all();
    }
    if (thread_.joinable()) thread_.join();
}

void Watcher::run()
{
    std::unique_lock lock(mutex_);
    while (!ending_) {
        lock.unlock();
        const Time begun = now();
        ask();
        told_(seen_);
        lock.lock();
        while (!ending_ && !at_once_ &&
               wake_.wait_until(lock, begun + (somebody_ ? watched_ : unwatched_)) !=
                   std::cv_status::timeout) {}
        at_once_ = false;
    }
}

void Watcher::ask()
{
    ask_pool();
    if (is_due(asked_health_, kHealthPeriod)) {
        auto health = client_.health();
        for (size_t i = 0; i < health.size(); ++i)
            seen_.servers[i].celsius = health[i].answer ? celsius_of(*health[i].answer)
                                                        : std::map<int, int>();
    }
    {
        std::lock_guard lock(slurm_->mutex);
        slurm_->pool.clear();
        for (const ServerSeen &server : seen_.servers)
            if (server.inventory && server.failure.empty())
                slurm_->pool.push_back({server.name, *server.inventory});
        seen_.queue = slurm_->queue;
    }
    seen_.time_ms = wall_ms();
}

void Watcher::ask_pool()
{
    auto inventories = client_.inventory();
    auto sharings = client_.sharing();
    seen_.servers.resize(inventories.size());
    for (size_t i = 0; i < inventories.size(); ++i) {
        ServerSeen &server = seen_.servers[i];
        server.name = inventories[i].server;
        server.failure.clear();
        if (inventories[i].answer)
            server.inventory = std::move(*inventories[i].answer);
        else
            server.failure = inventories[i].answer.error().text;
        server.sharing.reset();
        if (sharings[i].answer) server.sharing = std::move(*sharings[i].answer);
    }
    seen_.usages.clear();
    for (auto &told : client_.usages(""))
        if (told.answer)
            for (pool::LeaseUsage &usage : told.answer->leases)
                if (usage.ended_at == 0) seen_.usages.push_back(std::move(usage));
}

void Watcher::run_slurm(const std::shared_ptr<Slurm> &slurm, const Tool &tool)
{
    std::unique_lock lock(slurm->mutex);
    while (!slurm->ending) {
        const pool::Inventories pool = slurm->pool;
        lock.unlock();
        Queue queue = look_at_queue(tool, pool);
        lock.lock();
        slurm->queue = std::move(queue);
        slurm->wake.wait_for(lock, kSlurmPeriod, [&] { return slurm->ending; });
    }
}

}  // namespace rgpu::web
