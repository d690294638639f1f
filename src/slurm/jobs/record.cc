#include "slurm/jobs/record.h"

#include <algorithm>
#include <cstdlib>
#include <ctime>

namespace rgpu::slurm {
namespace {

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

// The value of " NAME=" among the words of a line.
std::string_view word(std::string_view line, std::string_view name)
{
    for (size_t at = 0; (at = line.find(name, at)) != line.npos; at += name.size()) {
        std::string_view rest = line.substr(at + name.size());
        if ((at == 0 || line[at - 1] == ' ') && rest.starts_with('='))
            return rest.substr(1, rest.find(' ') - 1);
    }
    return {};
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

std::optional<JobRecord> parse_job(std::string_view shown)
{
    constexpr std::string_view kComment = "AdminComment=";
    std::optional<JobRecord> out;
    while (!shown.empty()) {
        std::string_view line = cut(shown, "\n");
        line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
        if (line.starts_with("JobId=")) {
            if (out) break;
            out.emplace();
        }
        if (!out) continue;
        if (line.starts_with("JobState=")) {
            out->state = word(line, "JobState");
            out->reason = word(line, "Reason");
        } else if (line.starts_with("Requeue=")) {
            out->requeue = word(line, "Requeue") == "1";
            out->batch = word(line, "BatchFlag") != "0";
            out->restarts = atoi(std::string(word(line, "Restarts")).c_str());
        } else if (line.starts_with("StartTime=")) {
            out->ended = word(line, "EndTime") != "Unknown";
        } else if (line.starts_with(kComment)) {
            out->comment =
                line.substr(kComment.size(), line.find_last_not_of(' ') + 1 - kComment.size());
        }
    }
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
