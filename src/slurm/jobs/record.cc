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
// Marks stand in front of the note, so that no text that comes in with a note reads as one.
constexpr std::string_view kOver = "uses what is over, in place of QOS ", kSince = " since ",
                           kStays = "stays in its QOS until ", kMarkEnd = "; ";
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

std::string text_of(const QosMark &mark)
{
    if (!mark.home.empty())
        return std::string(kOver) + mark.home + std::string(kSince) + format_time(mark.since);
    return mark.stays ? std::string(kStays) + format_time(mark.stays) : "";
}

// Takes the mark from the front of our part, behind its name.
QosMark take_mark(std::string_view &part)
{
    std::string_view rest = part;
    const std::string_view text = cut(rest, kMarkEnd);
    QosMark mark;
    if (size_t since = text.rfind(kSince); text.starts_with(kOver) && since != text.npos) {
        mark.home = text.substr(kOver.size(), since - kOver.size());
        mark.since = parse_time(text.substr(since + kSince.size()));
    } else if (text.starts_with(kStays)) {
        mark.stays = parse_time(text.substr(kStays.size()));
    }
    // Only what was written so.
    if (text_of(mark) != text || text.empty()) return {};
    part = rest;
    return mark;
}

// Where our part of a comment begins.
size_t ours(std::string_view comment)
{
    if (comment.starts_with(kOurs)) return 0;
    size_t at = comment.rfind(std::string(kBefore) + std::string(kOurs));
    return at == comment.npos ? comment.size() : at + kBefore.size();
}

// Our part behind its name.
std::string_view said(std::string_view comment)
{
    const size_t at = ours(comment);
    return at == comment.size() ? std::string_view{} : comment.substr(at + kOurs.size());
}

// Others' part, and ours behind it.
std::string joined(std::string_view comment, std::string_view said)
{
    std::string out(comment.substr(0, ours(comment)));
    if (said.empty()) {
        if (out.ends_with(kBefore)) out.resize(out.size() - kBefore.size());
        return out;
    }
    if (!out.empty() && !out.ends_with(kBefore)) out += kBefore;
    (out += kOurs) += said;
    std::replace_if(
        out.begin(), out.end(), [](unsigned char c) { return c < ' '; }, ' ');
    return out;
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

QosMark qos_mark(std::string_view comment)
{
    std::string_view part = said(comment);
    return take_mark(part);
}

std::string note_of(std::string_view comment)
{
    std::string_view part = said(comment);
    (void)take_mark(part);
    return std::string(part);
}

std::string with_qos_mark(std::string_view comment, const QosMark &mark)
{
    std::string said = text_of(mark);
    const std::string note = note_of(comment);
    if (!said.empty() && !note.empty()) said += kMarkEnd;
    return joined(comment, said + note);
}

std::string with_note(std::string_view comment, std::string_view note,
                      const std::vector<Avoided> &avoid)
{
    std::string out(note);
    for (size_t i = 0; i < avoid.size(); ++i)
        ((out += i ? ", " : kAvoids) += avoid[i].server) += std::string(kUntil) +
                                                            format_time(avoid[i].until);
    // The note may hold a user's words: they begin no part of ours, and are no mark.
    std::replace(out.begin(), out.end(), '|', '/');
    std::string_view rest = out;
    if (take_mark(rest) != QosMark()) out.insert(0, 1, ' ');
    std::string said = text_of(qos_mark(comment));
    if (!said.empty() && !out.empty()) said += kMarkEnd;
    return joined(comment, said + out);
}

}  // namespace rgpu::slurm
