// SPDX-License-Identifier: Apache-2.0
// Log lines that strangers cause: so many at once, and then one a second. The next line that is
// written says how many were left out. So nobody fills the log, or its disk.
#pragma once

#include <mutex>

#include "util/token_bucket.h"

namespace rgpu::serverd {

// Any thread.
class Complaints {
public:
    // `of`: what all the lines begin with.
    explicit Complaints(const char *of) : of_(of) {}

    [[gnu::format(printf, 2, 3)]] void warn(const char *format, ...);

private:
    const char *const of_;
    std::mutex mutex_;
    TokenBucket lines_{1, 30};  // a second, at once
    size_t left_out_ = 0;
};

}  // namespace rgpu::serverd
