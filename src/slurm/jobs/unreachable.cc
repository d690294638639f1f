// SPDX-License-Identifier: Apache-2.0
#include "slurm/jobs/unreachable.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <fstream>
#include <iterator>
#include <unistd.h>

namespace rgpu::slurm {
namespace {

constexpr std::string_view kFirst = "rgpu-silent 1 ";

std::string read_file(const std::string &path)
{
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
}

std::string this_boot()
{
    std::string id = read_file("/proc/sys/kernel/random/boot_id");
    return id.substr(0, id.find('\n'));
}

}  // namespace

bool is_unreachable(const pool::Told<pool::Inventory> &told)
{
    return !told.answer && told.answer.error().kind == ErrorKind::disconnected;
}

UnreachableSince update_unreachable(const UnreachableSince &before, const pool::Inventories &pool,
                                    Milliseconds now)
{
    UnreachableSince out;
    for (const auto &told : pool)
        if (is_unreachable(told)) {
            auto known = before.find(told.server);
            out[told.server] = known != before.end() && known->second <= now ? known->second : now;
        }
    return out;
}

std::string format_unreachable(const UnreachableSince &servers, const std::string &boot)
{
    std::string out = std::string(kFirst) + boot + "\n";
    for (const auto &[server, since] : servers)
        out += std::to_string(since.count()) + " " + server + "\n";
    return out;
}

UnreachableSince parse_unreachable(std::string_view text, const std::string &boot)
{
    UnreachableSince out;
    std::string first = std::string(kFirst) + boot + "\n";
    if (!text.starts_with(first)) return out;
    for (text.remove_prefix(first.size()); !text.empty();) {
        std::string_view line = text.substr(0, text.find('\n'));
        text.remove_prefix(std::min(line.size() + 1, text.size()));
        int64_t since = 0;
        auto [end, bad] = std::from_chars(line.data(), line.data() + line.size(), since);
        if (bad == std::errc() && end + 1 < line.data() + line.size() && *end == ' ')
            out[std::string(end + 1, line.data() + line.size())] = Milliseconds(since);
    }
    return out;
}

Result<UnreachableSince> track_unreachable(const std::string &path, const pool::Inventories &pool,
                                           Milliseconds now)
{
    std::string boot = this_boot(), fresh = path + ".new";
    UnreachableSince out = update_unreachable(parse_unreachable(read_file(path), boot), pool, now);
    std::ofstream file(fresh, std::ios::trunc);
    file << format_unreachable(out, boot);
    file.close();
    if (!file || rename(fresh.c_str(), path.c_str()) != 0)
        return error(ErrorKind::internal, "writing %s: %s", path.c_str(), strerror(errno));
    return out;
}

Milliseconds since_boot()
{
    timespec at{};
    clock_gettime(CLOCK_BOOTTIME, &at);
    return Milliseconds(at.tv_sec * 1000 + at.tv_nsec / 1'000'000);
}

}  // namespace rgpu::slurm
