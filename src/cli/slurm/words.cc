// SPDX-License-Identifier: Apache-2.0
#include "cli/slurm/words.h"

#include <ctime>

#include "util/format.h"

namespace rgpu::cli {

std::string clock_text(int64_t seconds_since_1970)
{
    char text[32] = "-";
    const time_t time = seconds_since_1970;
    tm parts{};
    if (time) strftime(text, sizeof text, "%FT%T", localtime_r(&time, &parts));
    return text;
}

std::string to_text(const Wanted &wanted)
{
    std::string out = counted(wanted.gpus, "GPU");
    if (!wanted.type.empty()) out += " of type " + wanted.type;
    if (wanted.share.least != kWholeGpu)
        out += " (" + share_text(wanted.share.least, wanted.share.most) + " of each)";
    return out + (wanted.nodes > 1 ? " on each of " + counted(wanted.nodes, "node") : "");
}

}  // namespace rgpu::cli
