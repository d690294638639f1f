// SPDX-License-Identifier: Apache-2.0
// A small strict JSON reader (RFC 8259) for the interposer, which may link nothing but libc.
// Everything else in rgpu uses nlohmann/json.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "util/result.h"

namespace rgpu {

class Json {
public:
    using Array = std::vector<Json>;
    using Object = std::map<std::string, Json, std::less<>>;

    Json() = default;
    template <class T> explicit Json(T v) : v_(std::move(v)) {}

    // Parses a whole text. Depth is limited to 32; errors name the byte.
    static Result<Json> parse(std::string_view text);

    // Each gives null (or an empty text) when this is something else.
    const Object *object() const { return std::get_if<Object>(&v_); }
    const Array *array() const { return std::get_if<Array>(&v_); }
    const bool *boolean() const { return std::get_if<bool>(&v_); }
    const double *number() const { return std::get_if<double>(&v_); }
    const std::string *string() const { return std::get_if<std::string>(&v_); }

    // Member `name` of an object, or null.
    const Json *get(std::string_view name) const;
    // A string member, or "".
    std::string text(std::string_view name) const;

private:
    std::variant<std::monostate, bool, double, std::string, Array, Object> v_;
};

}  // namespace rgpu
