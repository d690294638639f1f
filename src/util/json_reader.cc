// SPDX-License-Identifier: Apache-2.0
// Recursive descent over JSON text.
#include "util/json_reader.h"

#include <cstdlib>

namespace rgpu {

namespace {

class Parser {
public:
    explicit Parser(std::string_view text) : s_(text) {}

    Result<Json> all()
    {
        Json v;
        if (!value(v, 0)) return fail();
        space();
        if (at_ != s_.size()) return fail();
        return v;
    }

private:
    static constexpr int kMaxDepth = 32;

    rgpu::Error fail() const { return error(ErrorKind::invalid, "not JSON at byte %zu", at_); }
    void space()
    {
        while (at_ < s_.size() && std::string_view(" \t\r\n").find(s_[at_]) != s_.npos) at_++;
    }
    bool take(std::string_view word)
    {
        if (s_.substr(at_, word.size()) != word) return false;
        at_ += word.size();
        return true;
    }
    bool value(Json &v, int depth)
    {
        space();
        if (depth > kMaxDepth || at_ >= s_.size()) return false;
        switch (s_[at_]) {
        case '{': return object(v, depth);
        case '[': return array(v, depth);
        case '"': {
            std::string s;
            if (!string(s)) return false;
            v = Json(std::move(s));
            return true;
        }
        case 't': v = Json(true); return take("true");
        case 'f': v = Json(false); return take("false");
        case 'n': v = Json(); return take("null");
        default: return number(v);
        }
    }
    bool object(Json &v, int depth)
    {
        Json::Object o;
        at_++;
        space();
        if (!take("}")) {
            do {
                std::string name;
                Json member;
                space();
                if (!string(name)) return false;
                space();
                if (!take(":") || !value(member, depth + 1)) return false;
                o[std::move(name)] = std::move(member);
                space();
            } while (take(","));
            if (!take("}")) return false;
        }
        v = Json(std::move(o));
        return true;
    }
    bool array(Json &v, int depth)
    {
        Json::Array a;
        at_++;
        space();
        if (!take("]")) {
            do {
                if (!value(a.emplace_back(), depth + 1)) return false;
                space();
            } while (take(","));
            if (!take("]")) return false;
        }
        v = Json(std::move(a));
        return true;
    }
    bool number(Json &v)
    {
        size_t n = s_.find_first_not_of("+-.0123456789eE", at_);
        std::string digits(s_.substr(at_, n == s_.npos ? n : n - at_));
        char *end = nullptr;
        double d = strtod(digits.c_str(), &end);
        if (digits.empty() || *end) return false;
        at_ += digits.size();
        v = Json(d);
        return true;
    }
    bool string(std::string &out)
    {
        if (!take("\"")) return false;
        while (at_ < s_.size()) {
            char c = s_[at_++];
            if (c == '"') return true;
            if (static_cast<unsigned char>(c) < 0x20) return false;
            if (c != '\\') {
                out += c;
            } else if (!escape(out)) {
                return false;
            }
        }
        return false;
    }
    bool escape(std::string &out)
    {
        static constexpr std::string_view from = "\"\\/bfnrt", to = "\"\\/\b\f\n\r\t";
        if (at_ >= s_.size()) return false;
        char c = s_[at_++];
        if (size_t i = from.find(c); i != from.npos) {
            out += to[i];
            return true;
        }
        if (c != 'u' || s_.size() - at_ < 4) return false;
        std::string digits(s_.substr(at_, 4));
        char *end = nullptr;
        unsigned long u = strtoul(digits.c_str(), &end, 16);
        if (*end || (u >= 0xD800 && u < 0xE000))
            return false;  // no surrogate pairs: none are written
        at_ += 4;
        if (u < 0x80) {
            out += static_cast<char>(u);
        } else if (u < 0x800) {
            out += static_cast<char>(0xC0 | u >> 6);
            out += static_cast<char>(0x80 | (u & 63));
        } else {
            out += static_cast<char>(0xE0 | u >> 12);
            out += static_cast<char>(0x80 | (u >> 6 & 63));
            out += static_cast<char>(0x80 | (u & 63));
        }
        return true;
    }

    std::string_view s_;
    size_t at_ = 0;
};

}  // namespace

Result<Json> Json::parse(std::string_view text) { return Parser(text).all(); }

const Json *Json::get(std::string_view name) const
{
    const Object *o = object();
    if (!o) return nullptr;
    auto it = o->find(name);
    return it == o->end() ? nullptr : &it->second;
}

std::string Json::text(std::string_view name) const
{
    const Json *member = get(name);
    const std::string *s = member ? member->string() : nullptr;
    return s ? *s : std::string();
}

}  // namespace rgpu
