// SPDX-License-Identifier: Apache-2.0
// What Slurm's own record of a job says, and our note in it: the AdminComment, which survives a
// requeue and slurmctld.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rgpu::slurm {

struct JobRecord {
    std::string state, reason;
    int restarts = 0;
    bool batch = false, requeue = false;  // what Slurm may requeue is both
    bool ended = false;   // its end is known: it runs no more, nor again unless its exit status has
                          // it requeued
    std::string comment;  // AdminComment
};
// What squeue -O is to print for parse_job(): nothing that a user can write. In what scontrol
// shows, a job's name or comment may hold lines that look like Slurm's.
inline constexpr const char *kRecordFormat =
    "State:|,RestartCnt:|,BatchFlag:|,Requeue:|,EndTime:|,Reason:|,admin_comment:\x1f";
// The first of those printed; nothing where there is none.
std::optional<JobRecord> parse_job(std::string_view printed);

// A server that the next runs of a job keep away from.
struct Avoided {
    std::string server;
    int64_t until = 0;  // seconds since the epoch, wall clock
    bool operator==(const Avoided &) const = default;
};

// Those that the comment names and that are still to be avoided.
std::vector<Avoided> avoided(std::string_view comment, int64_t now);

// What rgpu slurm preempt remembers of a job that is, or was, moved to another QOS.
struct QosMark {
    std::string home = {};  // the QOS that it was moved out of; empty: it is in its own
    int64_t since = 0;      // when
    int64_t stays = 0;      // it is not moved before this time
    bool operator==(const QosMark &) const = default;
};
QosMark qos_mark(std::string_view comment);
// The comment with this mark in place of the one before, and with the note that it has. A mark
// without a home and a time is none.
std::string with_qos_mark(std::string_view comment, const QosMark &mark);

// The note of ours in a comment, without the mark; empty where there is none.
std::string note_of(std::string_view comment);

// The comment with this note of ours in place of the one before; the mark stays. Ours begins with
// "rgpu: " and is the last; what stands before it is others', and stays.
std::string with_note(std::string_view comment, std::string_view note,
                      const std::vector<Avoided> &avoid);

}  // namespace rgpu::slurm
