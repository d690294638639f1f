// SPDX-License-Identifier: Apache-2.0
// What a request's head may say: as much of HTTP/1.1 (RFC 9110, 9112) as the control API needs. All
// else is refused here, before anything is spent on it.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace rgpu::serverd {

struct RequestHead {
    size_t body = 0;  // bytes that follow it
    int status = 0;   // not 0: the request is refused with this status
    std::string why;  // ... and this sentence
};

// `head`: the request line, the fields, and the empty line that ends them. It may be anything.
RequestHead read_head(std::string_view head);

// The words that stand behind a status in an answer.
const char *words_of(int status);

// The place of a line feed that ends no line (RFC 9112, 2.2), from `at` on; npos when there is
// none. What holds one is no head.
size_t stray_line_feed(std::string_view received, size_t at);

}  // namespace rgpu::serverd
