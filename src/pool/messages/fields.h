// SPDX-License-Identifier: Apache-2.0
// Reads and writes the members of JSON objects: what the files *_json.cc of this folder share.
//
// What comes from outside is checked here once: types, ranges, lengths, printable characters. No
// exception leaves decode().
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <set>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "util/defaults.h"
#include "util/result.h"

namespace rgpu::pool {

using Json = nlohmann::json;

// Values and cures are sentences.
inline constexpr size_t kMostSentence = 2000;

// Reads the members of one object. The first thing that is wrong is kept, and all that comes
// after it is default values: check once, with done().
class Reader {
public:
    Reader(const Json &json, std::string where) : json_(json), where_(std::move(where))
    {
        if (!json_.is_object()) wrong("must be an object");
    }

    std::string text(const char *key, bool needed = true, size_t limit = defaults::kMaxText)
    {
        const Json *value = find(key, needed);
        if (!value) return "";
        if (!value->is_string()) return wrong(key, "must be a text"), "";
        auto text = value->get<std::string>();
        auto odd = [](char c) { return c < 0x20 || c > 0x7e; };
        if (text.size() > limit || std::any_of(text.begin(), text.end(), odd))
            return wrong(key, "must be at most " + std::to_string(limit) +
                                  " printable ASCII characters"),
                   "";
        return text;
    }

    int64_t number(const char *key, int64_t low, int64_t high, bool needed = true,
                   int64_t otherwise = 0)
    {
        const Json *value = find(key, needed);
        if (!value) return otherwise;
        bool whole =
            value->is_number_integer() &&
            !(value->is_number_unsigned() &&
              value->get<uint64_t>() > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()));
        if (!whole || value->get<int64_t>() < low || value->get<int64_t>() > high) {
            wrong(key, "must be a whole number from " + std::to_string(low) + " to " +
                           std::to_string(high));
            return otherwise;
        }
        return value->get<int64_t>();
    }

    template <class T = int> T count(const char *key, bool needed = true, T otherwise = 0)
    {
        constexpr auto high = std::min<uint64_t>(std::numeric_limits<T>::max(), uint64_t{1} << 62);
        return static_cast<T>(
            number(key, 0, static_cast<int64_t>(high), needed, static_cast<int64_t>(otherwise)));
    }

    double real(const char *key)
    {
        const Json *value = find(key, false);
        if (value && !value->is_number()) wrong(key, "must be a number");
        return value && value->is_number() ? value->get<double>() : 0;
    }

    bool flag(const char *key)
    {
        const Json *value = find(key, false);
        if (value && !value->is_boolean()) wrong(key, "must be true or false");
        return value && value->is_boolean() && value->get<bool>();
    }

    // The member itself; null when it is missing.
    const Json *member(const char *key, bool needed = true) { return find(key, needed); }

    // Calls read(element) for each of an array; read returns what is wrong, or nothing.
    template <class F> void each(const char *key, F read)
    {
        const Json *value = find(key, true);
        if (!value) return;
        if (!value->is_array()) return wrong(key, "must be an array");
        for (const Json &element : *value) {
            Result<void> done = read(element);
            if (!done && error_.empty()) error_ = done.error().text;
        }
    }

    void wrong(const std::string &key, const std::string &what) { wrong(key + " " + what); }

    Result<void> done() const
    {
        if (error_.empty()) return {};
        return Error{ErrorKind::invalid, error_};
    }

    // The same, and no member was there that nobody asked for.
    Result<void> done_strictly()
    {
        if (error_.empty())
            for (const auto &[key, value] : json_.items())
                if (!seen_.count(key)) wrong("has the unknown field \"" + printable(key) + "\"");
        return done();
    }

private:
    const Json *find(const char *key, bool needed)
    {
        seen_.insert(key);
        if (!error_.empty()) return nullptr;
        auto value = json_.find(key);
        if (value != json_.end()) return &*value;
        if (needed) wrong("lacks \"" + std::string(key) + "\"");
        return nullptr;
    }

    void wrong(const std::string &what)
    {
        if (error_.empty()) error_ = where_ + ": " + what;
    }

    static std::string printable(std::string text)
    {
        text.resize(std::min<size_t>(text.size(), 40));
        for (char &c : text)
            if (c < 0x20 || c > 0x7e) c = '?';
        return text;
    }

    const Json &json_;
    std::string where_;
    std::string error_;
    std::set<std::string> seen_;
};

// Parses text and hands it to read(const Json &) -> Result<T>. No exception leaves.
template <class T, class F> Result<T> decode(std::string_view text, F read)
{
    try {
        Json json = Json::parse(text, nullptr, false);
        if (json.is_discarded()) return error(ErrorKind::invalid, "the body is not JSON");
        return read(json);
    } catch (const std::exception &failure) {
        return error(ErrorKind::invalid, "the body cannot be read: %s", failure.what());
    }
}

// Text that came from outside must not make the encoder throw.
std::string dump(const Json &json, int indent = -1);

// A millionth is enough for people.
double rounded(double value);

// What a host calls its things may hold anything; a client takes printable ASCII.
std::string printable(std::string text, size_t most);

}  // namespace rgpu::pool
