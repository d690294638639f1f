// SPDX-License-Identifier: Apache-2.0
#include "slurm/jobs/record.h"

#include <algorithm>
#include <cstdlib>
#include <ctime>

namespace rgpu::slurm {
namespace {

constexpr std::string_view kField = "|", kEnd = "\x1f";  // of kRecordFormat
constexpr std::string_view kOurs = "rgpu: ", kBefore = " | ", kAvoids = "; avoids ",
                           kUntil = " until ";
constexpr const char *kTime = "%Y-%m-%dT%H:%M:%SZ";

std::string_view cut(std::string_view &rest, std::string_view separator)
{
    size_t end = rest.find(separator);
    std::string_view part = rest.substr(0, end);
    rest = end == rest.npos ? std::string_view{} : rest.substr(end + separator.size());
    return part;
}

int64_t parse_time(std::string_view text)
{
    tm parts{};
    const char *end = strptime(std::string(text).c_str(), kTime, &parts);
    return end ? timegm(&parts) : 0;
}

std::string format_time(int64_t time)
{
    char text[32];
    auto at = static_cast<time_t>(time);
    tm parts{};
    strftime(text, sizeof text, kTime, gmtime_r(&at, &parts));
    return text;
}

// Where our part of a comment begins.
size_t ours(std::string_view comment)
{
    if (comment.starts_with(kOurs)) return 0;
    size_t at = comment.rfind(std::string(kBefore) + std::string(kOurs));
    return at == comment.npos ? comment.size() : at + kBefore.size();
}

}  // namespace

std::optional<JobRecord> parse_job(std::string_view printed)
{
    std::string_view first = cut(printed, kEnd);
    if (std::count(first.begin(), first.end(), '|') < 6) return {};
    JobRecord out;
    out.state = cut(first, kField);
    out.restarts = atoi(std::string(cut(first, kField)).c_str());
    out.batch = cut(first, kField) != "0";
    out.requeue = cut(first, kField) == "1";
    std::string_view end = cut(first, kField);  // or NONE, N/A
    out.ended = !end.empty() && end[0] >= '0' && end[0] <= '9';
    out.reason = cut(first, kField);
    out.comment = first == "(null)" ? std::string_view() : first;
    return out;
}

std::vector<Avoided> avoided(std::string_view comment, int64_t now)
{
    std::vector<Avoided> out;
    std::string_view part = comment.substr(ours(comment));
    size_t at = part.rfind(kAvoids);
    std::string_view rest = at == part.npos ? std::string_view{} : part.substr(at + kAvoids.size());
    while (!rest.empty()) {
        std::string_view one = cut(rest, ", ");
        Avoided a{std::string(cut(one, kUntil)), 0};
        a.until = parse_time(one);
        if (a.until > now) out.push_back(std::move(a));
    }
    return out;
}

std::string with_note(std::string_view comment, std::string_view note,
                      const std::vector<Avoided> &avoid)
{
    std::string out(comment.substr(0, ours(comment)));
    if (!out.empty() && !out.ends_with(kBefore)) out += kBefore;
    (out += kOurs) += note;
    for (size_t i = 0; i < avoid.size(); ++i)
        ((out += i ? ", " : kAvoids) += avoid[i].server) += std::string(kUntil) +
                                                            format_time(avoid[i].until);
    std::replace_if(
        out.begin(), out.end(), [](unsigned char c) { return c < ' '; }, ' ');
    return out;
}

}  // namespace rgpu::slurm
