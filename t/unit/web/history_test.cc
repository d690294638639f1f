// SPDX-License-Identifier: Apache-2.0
#include "web/data/history.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <criterion/criterion.h>
#include <nlohmann/json.hpp>

#include "web/data/past.h"

using namespace rgpu;
using namespace rgpu::web;
using nlohmann::json;

namespace {

constexpr int64_t kMinute = 60'000;
// A time at which a step of the answers begins.
constexpr int64_t kBegin = 1'700'000'000'000 / History::kStepMs * History::kStepMs;

// A server of two GPUs, of which so many hundredths are held.
ServerSeen server(const std::string &name, int held)
{
    ServerSeen out;
    out.name = name;
    out.inventory.emplace();
    for (int i = 0; i < 2; ++i) {
        pool::GpuState gpu;
        gpu.index = i;
        gpu.memory = 1000;
        gpu.free_share = kWholeGpu - std::min(held, kWholeGpu);
        gpu.free_memory = i ? 1000 : 400;
        held = std::max(0, held - kWholeGpu);
        out.inventory->gpus.push_back(gpu);
    }
    return out;
}

Seen seen(int64_t time_ms, std::vector<ServerSeen> servers)
{
    Seen out;
    out.time_ms = time_ms;
    out.servers = std::move(servers);
    return out;
}

struct Folder {
    std::string path;
    Folder()
    {
        char name[] = "/tmp/rgpu-history-XXXXXX";
        path = mkdtemp(name);
    }
    ~Folder() { std::filesystem::remove_all(path); }
};

}  // namespace

Test(history, points_are_means_of_three_minutes)
{
    History history("");
    for (int i = 0; i < 3; ++i) {
        // Two looks each minute.
        history.look(seen(kBegin + i * kMinute, {server("a", 50), server("b", 200)}));
        history.look(seen(kBegin + i * kMinute + 1000, {server("a", 150), server("b", 200)}));
    }
    history.look(seen(kBegin + 3 * kMinute, {}));
    const std::vector<Point> all = history.day("", kBegin + 3 * kMinute);
    cr_assert_eq(all.size(), 1);
    cr_assert_eq(all[0].time_ms, kBegin + 3 * kMinute);
    cr_assert_eq(all[0].gpus, 4);
    cr_assert_eq(all[0].held, 3);
    cr_assert_eq(all[0].memory, 4000);
    cr_assert_eq(all[0].memory_held, 1200);
    const std::vector<Point> one = history.day("a", kBegin + 3 * kMinute);
    cr_assert_eq(one.size(), 1);
    cr_assert_eq(one[0].gpus, 2);
    cr_assert_eq(one[0].held, 1);
    cr_assert_eq(one[0].waiting, kUnknown, "nobody waits for a server");
    cr_assert(history.day("c", kBegin + 3 * kMinute).empty());
}

Test(history, a_silent_server_is_not_counted)
{
    History history("");
    ServerSeen silent = server("b", 200);
    silent.failure = "it does not answer";
    history.look(seen(kBegin, {server("a", 0), silent}));
    history.look(seen(kBegin + kMinute, {}));
    const std::vector<Point> all = history.day("", kBegin + 3 * kMinute);
    cr_assert_eq(all.size(), 1);
    cr_assert_eq(all[0].gpus, 2);
}

Test(history, what_jobs_wait_for_is_of_the_pool)
{
    History history("");
    Seen now = seen(kBegin, {server("a", 0)});
    now.queue.jobs.resize(2);
    now.queue.jobs[0].job.state = "PENDING";
    now.queue.jobs[0].job.licences.sum = 250;
    now.queue.jobs[1].job.state = "RUNNING";
    now.queue.jobs[1].job.licences.sum = 100;
    history.look(now);
    history.look(seen(kBegin + kMinute, {}));
    cr_assert_eq(history.day("", kBegin + 3 * kMinute)[0].waiting, 2.5F);
    Seen without = seen(kBegin + 3 * kMinute, {server("a", 0)});
    without.queue.failure = "there is no squeue";
    history.look(without);
    history.look(seen(kBegin + 4 * kMinute, {}));
    cr_assert_eq(history.day("", kBegin + 6 * kMinute)[1].waiting, kUnknown);
}

Test(history, a_day_later_the_first_is_gone)
{
    History history("");
    history.look(seen(kBegin, {server("a", 200)}));
    history.look(seen(kBegin + kMinute, {}));
    cr_assert_eq(history.day("", kBegin + Ring::kMinutes * kMinute).size(), 1);
    cr_assert(history.day("", kBegin + Ring::kMinutes * kMinute + History::kStepMs).empty());
    history.look(seen(kBegin + Ring::kMinutes * kMinute, {server("a", 100)}));
    history.look(seen(kBegin + (Ring::kMinutes + 1) * kMinute, {}));
    const auto points = history.day("", kBegin + (Ring::kMinutes + 3) * kMinute);
    cr_assert_eq(points.size(), 1);
    cr_assert_eq(points[0].held, 1);
}

Test(history, it_outlives_the_program)
{
    const Folder folder;
    const std::string path = folder.path + "/history";
    {
        History history(path);
        cr_assert(history.check());
        history.look(seen(kBegin, {server("a/../b", 50)}));
        history.look(seen(kBegin + kMinute, {}));
    }
    History history(path);
    cr_assert(history.check());
    ServerSeen silent = server("a/../b", 0);
    silent.failure = "it does not answer";
    history.look(seen(kBegin + 2 * kMinute, {silent}));
    const auto points = history.day("a/../b", kBegin + 3 * kMinute);
    cr_assert_eq(points.size(), 1, "also of a server that is silent now");
    cr_assert_eq(points[0].held, 0.5F);
    struct stat state;
    cr_assert_eq(stat((path + "/server-a_2f.._2fb.ring").c_str(), &state), 0);
    cr_assert_eq(state.st_mode & 0777, 0600);
}

Test(history, what_lies_in_a_file_is_not_believed)
{
    const Folder folder;
    const std::string path = folder.path + "/server-a.ring";
    {
        History history(folder.path);
        history.look(seen(kBegin, {server("a", 50)}));
        history.look(seen(kBegin + kMinute, {}));
    }
    const int64_t minute = kBegin / kMinute;
    const auto place = 64 + (minute % Ring::kMinutes) * 40;
    const auto points_with = [&](float number) {
        std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
        file.seekp(place + 8);
        file.write(reinterpret_cast<const char *>(&number), sizeof number);
        file.close();
        History history(folder.path);
        history.look(seen(kBegin + 2 * kMinute, {}));
        Result<Ring> ring = Ring::open(path);
        cr_assert(ring);
        return ring->find(minute) ? 1 : 0;
    };
    cr_assert_eq(points_with(2), 1);
    cr_assert_eq(points_with(NAN), 0);
    cr_assert_eq(points_with(-1), 0);
    cr_assert_eq(points_with(INFINITY), 0);
    cr_assert_eq(truncate(path.c_str(), place + 20), 0);
    cr_assert_eq(points_with(2), 0, "half a record is none");
    std::ofstream(path, std::ios::binary) << std::string(5000, 'x');
    const Result<Ring> other = Ring::open(path);
    cr_assert(!other);
    cr_assert_eq(other.error().kind, ErrorKind::invalid);
    cr_assert(other.error().text.find("remove it") != std::string::npos);
    cr_assert_eq(symlink("/etc/passwd", (folder.path + "/link.ring").c_str()), 0);
    cr_assert(!Ring::open(folder.path + "/link.ring"));
}

Test(history, a_time_in_which_nobody_looked_is_a_gap)
{
    std::vector<Point> points(3);
    points[0].time_ms = 1000, points[1].time_ms = 2000, points[2].time_ms = 9000;
    points[2].waiting = kUnknown, points[2].held = 0.25F;
    const json told = json::parse(points_json(points, 1000));
    cr_assert_eq(told.size(), 4);
    cr_assert_eq(told[2].dump(), "[3000]");
    cr_assert_eq(told[3].dump(), "[9000,0.0,0.25,0.0,0.0,0.0,0.0,0.0,null]", "%s",
                 told[3].dump().c_str());
}

Test(past, only_so_many_questions_wait)
{
    Past past("http://localhost:9090");  // which nobody asks, as it is not started
    for (int days = 2; days < 2 + 64; ++days) cr_assert(!past.find("", days), "%d days", days);
    const auto refused = past.find("", 80);
    cr_assert(refused && !*refused);
    cr_assert_eq(refused->error().kind, ErrorKind::unavailable);
    cr_assert(!past.find("", 2), "one that waits goes on waiting");
}
