// SPDX-License-Identifier: Apache-2.0
// Result<T>: a value or an Error, for code that reports failure without exceptions.
//
// Member names follow std::expected (C++23), so that it can replace this one day.
// An Error says what kind of failure it is (by what the caller can do about it) and a
// sentence for a person. Each layer may add its context once with Error::in().
#pragma once

#include <cstdarg>
#include <cstdio>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace rgpu {

enum class ErrorKind {
    invalid,       // the caller's input is wrong: do not try again
    unsupported,   // understood, but not to be had here
    unavailable,   // not now: try again later
    disconnected,  // the peer is gone
    exhausted,     // memory, files, GPUs: free something first
    internal,      // a bug or a broken system
};

constexpr const char *name(ErrorKind k)
{
    constexpr const char *names[] = {"invalid",      "unsupported", "unavailable",
                                     "disconnected", "exhausted",   "internal"};
    return names[static_cast<int>(k)];
}

struct Error {
    ErrorKind kind = ErrorKind::internal;
    std::string text;

    // The same error with what was being done in front: "reading /etc/x: no such file".
    Error in(std::string_view doing) &&
    {
        text.insert(0, std::string(doing) + ": ");
        return std::move(*this);
    }
};

// An Error from a printf format.
[[gnu::format(printf, 2, 3)]] inline Error error(ErrorKind kind, const char *format, ...)
{
    char buffer[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(buffer, sizeof buffer, format, args);
    va_end(args);
    return Error{kind, buffer};
}

template <class T> class [[nodiscard]] Result {
public:
    Result(T value) : v_(std::in_place_index<0>, std::move(value)) {}
    Result(Error e) : v_(std::in_place_index<1>, std::move(e)) {}

    bool has_value() const { return v_.index() == 0; }
    explicit operator bool() const { return has_value(); }
    T &value() & { return std::get<0>(v_); }
    const T &value() const & { return std::get<0>(v_); }
    T &&value() && { return std::get<0>(std::move(v_)); }
    T &operator*() & { return value(); }
    const T &operator*() const & { return value(); }
    T &&operator*() && { return std::move(*this).value(); }
    T *operator->() { return &value(); }
    const T *operator->() const { return &value(); }
    Error &error() & { return std::get<1>(v_); }
    const Error &error() const & { return std::get<1>(v_); }
    Error &&error() && { return std::get<1>(std::move(v_)); }

private:
    std::variant<T, Error> v_;
};

template <> class [[nodiscard]] Result<void> {
public:
    Result() = default;
    Result(Error e) : error_(std::move(e)), ok_(false) {}

    bool has_value() const { return ok_; }
    explicit operator bool() const { return ok_; }
    void value() const {}
    rgpu::Error &error() & { return error_; }
    const rgpu::Error &error() const & { return error_; }
    rgpu::Error &&error() && { return std::move(error_); }

private:
    rgpu::Error error_;
    bool ok_ = true;
};

}  // namespace rgpu
