// SPDX-License-Identifier: Apache-2.0
// The links that a program's time is predicted for: those of the pool's servers, as they are
// measured now, and those of --link. For rgpu run --predict and rgpu predict.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "cli/parts/command.h"
#include "cli/parts/prediction.h"

namespace CLI {
class Option;
}

namespace rgpu::cli {

// --link, as an option of `app`.
CLI::Option *add_links(CLI::App &app, std::vector<std::string> &links);

// Fails with `invalid` and --link's name.
Result<std::vector<NamedLink>> parse_links(const std::vector<std::string> &links);

// Measures the way to each of these servers, or of all; which does not answer, and why, goes to
// `unknown`. Fails where there is no such server.
Result<std::vector<NamedLink>> measure_paths(Context &context, const std::vector<std::string> &only,
                                             std::vector<std::string> &unknown);

// Has the processes that this one starts record themselves, in a folder of its own that goes with
// it.
class Recording {
public:
    // Fails with `invalid`: RGPU_STATS is set already, or there is no room.
    static Result<Recording> begin();
    Recording(Recording &&other) noexcept : folder_(std::exchange(other.folder_, {})) {}
    Recording &operator=(Recording &&) = delete;
    ~Recording();

    // What has been recorded so far. What cannot be read is told on stderr.
    std::vector<RecordedProcess> processes() const;

private:
    explicit Recording(std::string folder) : folder_(std::move(folder)) {}
    std::string folder_;
};

}  // namespace rgpu::cli
