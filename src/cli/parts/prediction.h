// SPDX-License-Identifier: Apache-2.0
// What a program that was run once would take over other links: from what its processes recorded
// (RGPU_STATS), and how each link is.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "pool/client/client.h"
#include "util/link_time.h"
#include "util/result.h"

namespace rgpu::cli {

// What one process recorded. Seconds.
struct RecordedProcess {
    double began = 0, seconds = 0;  // since 1970; how long it ran
    double measuring = 0;           // of that, what the recording itself took
    uint64_t calls = 0, round_trips = 0, sent = 0, received = 0;
    std::string transport;
    std::vector<LinkTime> later;  // how much later it would have ended: none ends earlier
    std::string waits_most;       // the call with the most round trips, and how many
    uint64_t waits = 0;
};
// The text of a file that RGPU_STATS names. Fails with `invalid`, saying what it lacks.
Result<RecordedProcess> decode_recorded(std::string_view json);
Result<RecordedProcess> read_recorded(const std::string &path);

struct NamedLink {
    std::string name;
    LinkPace pace;
};

// A GPU in this machine.
NamedLink local_link();
// "[NAME=]5ms,200M": a round trip, and bits a second (both ways, or to the server and from it). Or
// [NAME=]FILE: what rgpu bench --json has printed. Fails with `invalid`.
Result<NamedLink> parse_link(const std::string &text);
// From here to a server: connects, and some MiB. Fails with why it is not known.
Result<NamedLink> measure_path(pool::Client &client, const ServerEntry &server,
                               Milliseconds timeout);

// What one link makes of the program. Seconds.
struct Predicted {
    NamedLink link;
    double seconds = 0, factor = 1;       // against local
    double for_trips = 0, for_bytes = 0;  // of the seconds
};
struct Prediction {
    double measured = 0;  // seconds
    size_t processes = 0;
    uint64_t calls = 0, round_trips = 0, sent = 0, received = 0;
    std::vector<Predicted> links;      // the first is local
    std::vector<std::string> unknown;  // servers whose link is not known, and why
    std::vector<std::string> advice;
};
// `seconds`: how long the whole command took; 0: as long as its processes. There is at least one.
// Processes that ran one after the other are late one after the other; of those that ran at one
// time, the latest counts.
Prediction predict(std::vector<RecordedProcess> processes, double seconds,
                   const std::vector<NamedLink> &links);

std::string prediction_text(const Prediction &prediction);
std::string prediction_json(const Prediction &prediction);

}  // namespace rgpu::cli
