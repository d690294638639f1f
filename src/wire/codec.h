// SPDX-License-Identifier: Apache-2.0
// Writing values into a frame's body and reading them back, every length checked.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace rgpu::wire {

// Appends to a byte vector that it does not own.
class Writer {
public:
    explicit Writer(std::vector<uint8_t> &to) : to_(to) {}

    void bytes(const void *data, size_t n)
    {
        const size_t at = to_.size();
        to_.resize(at + n);
        if (n) memcpy(to_.data() + at, data, n);
    }
    template <class T> void value(const T &v)
    {
        static_assert(std::is_trivially_copyable_v<T>);
        bytes(&v, sizeof v);
    }
    void string(std::string_view s)
    {
        value(static_cast<uint32_t>(s.size()));
        bytes(s.data(), s.size());
    }

private:
    std::vector<uint8_t> &to_;
};

// Reads from bytes that it does not own. After the first read past the end ok() is false for good
// and every further read gives zeros, so that a decoder may check once at its end.
class Reader {
public:
    Reader(const void *data, size_t n) : p_(static_cast<const uint8_t *>(data)), end_(p_ + n) {}

    bool ok() const { return ok_; }
    size_t left() const { return static_cast<size_t>(end_ - p_); }
    bool at_end() const { return ok_ && p_ == end_; }

    // The next n bytes, in place; null when there are fewer.
    const uint8_t *bytes(size_t n)
    {
        if (!ok_ || n > left()) {
            ok_ = false;
            return nullptr;
        }
        const uint8_t *p = p_;
        p_ += n;
        return p;
    }
    template <class T> T value()
    {
        static_assert(std::is_trivially_copyable_v<T>);
        T v{};
        if (const uint8_t *p = bytes(sizeof v)) memcpy(&v, p, sizeof v);
        return v;
    }
    std::string_view string()
    {
        uint32_t n = value<uint32_t>();
        const uint8_t *p = bytes(n);
        return p ? std::string_view(reinterpret_cast<const char *>(p), n) : std::string_view();
    }
    // A count of elements of `size` bytes each that are still to be read; 0 and not ok() when the
    // bytes left cannot hold them, so that nobody reserves memory for a lie.
    size_t count(size_t size)
    {
        uint64_t n = value<uint64_t>();
        if (n > left() / (size ? size : 1)) ok_ = false;
        return ok_ ? static_cast<size_t>(n) : 0;
    }

private:
    const uint8_t *p_, *end_;
    bool ok_ = true;
};

}  // namespace rgpu::wire
