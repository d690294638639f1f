// SPDX-License-Identifier: Apache-2.0
// What clients ask of a server, and its offers, as JSON (doc/api.md).
//
// What a server reads is checked to the last field: an unknown one is an error, because it could
// be a condition that this version does not know. What a client reads may hold more than it knows.
#pragma once

#include <string>
#include <string_view>

#include "pool/messages/messages.h"
#include "util/result.h"

namespace rgpu::pool {

// Decoding fails with `invalid` and a sentence for the asker.
std::string encode(const Request &request);
Result<Request> decode_request(std::string_view json);

std::string encode(const Drain &drain);
Result<Drain> decode_drain(std::string_view json);

// A lend's grace is no longer than this.
inline constexpr Milliseconds kLongestGrace = std::chrono::hours(24);
std::string encode(const Lend &lend);
Result<Lend> decode_lend(std::string_view json);

std::string encode(const Resize &resize);
Result<Resize> decode_resize(std::string_view json);

std::string encode(const Offer &offer);
Result<Offer> decode_offer(std::string_view json);

}  // namespace rgpu::pool
