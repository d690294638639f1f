// SPDX-License-Identifier: Apache-2.0
// Formats one conversion at a time through the host's snprintf, as CUDA does.
#include "softgpu/exec/printf.h"

#include <cstdint>
#include <cstdio>
#include <cstring>

namespace rgpu::softgpu::exec {

namespace {

constexpr int kMaxArguments = 32;  // CUDA C++ programming guide, "formatted output"

class Arguments {
public:
    explicit Arguments(const void *packed) : at_(reinterpret_cast<uintptr_t>(packed)) {}

    template <class T> T next()
    {
        at_ = (at_ + sizeof(T) - 1) / sizeof(T) * sizeof(T);
        T value;
        memcpy(&value, reinterpret_cast<const void *>(at_), sizeof value);
        at_ += sizeof value;
        ++used_;
        return value;
    }
    int used() const { return used_; }

private:
    uintptr_t at_;
    int used_ = 0;
};

// One conversion as the host's printf takes it: flags, width and precision as written, the length
// ours.
struct Conversion {
    char text[64] = "%";
    size_t length = 1;
    int size = 4;            // bytes of an integer argument as it is packed
    const char *width = "";  // hh, h or ll, for the host
    char letter = 0;

    void add(char c)
    {
        if (length < 48) text[length++] = c;
    }
    void add_number(int n)
    {
        char digits[16];
        snprintf(digits, sizeof digits, "%d", n);
        for (const char *d = digits; *d; ++d) add(*d);
    }
    const char *finish(const char *modifier, char conversion)
    {
        snprintf(text + length, sizeof text - length, "%s%c", modifier, conversion);
        return text;
    }
};

const char *parse_length(const char *f, Conversion &c)
{
    for (;; ++f) {
        switch (*f) {
        case 'h': c.width = c.width[0] == 'h' ? "hh" : "h"; continue;
        case 'l':
        case 'j':
        case 'z':
        case 't':
        case 'q':
        case 'L':
            c.size = 8;
            c.width = "ll";
            continue;
        }
        return f;
    }
}

// From behind the '%' to the conversion letter.
const char *parse(const char *f, Conversion &c, Arguments &arguments)
{
    while (*f && strchr("-+ #0", *f)) c.add(*f++);
    auto number = [&] {
        if (*f == '*') {
            c.add_number(arguments.next<int>());
            ++f;
        }
        while (*f >= '0' && *f <= '9') c.add(*f++);
    };
    number();
    if (*f == '.') {
        c.add(*f++);
        number();
    }
    f = parse_length(f, c);
    c.letter = *f;
    return f;
}

template <class... T> void append(std::string &out, const char *format, T... value)
{
    char small[128];
    int n = snprintf(small, sizeof small, format, value...);
    if (n < 0) return;
    if (static_cast<size_t>(n) < sizeof small) {
        out.append(small, static_cast<size_t>(n));
        return;
    }
    size_t at = out.size();
    out.resize(at + static_cast<size_t>(n) + 1);
    snprintf(out.data() + at, static_cast<size_t>(n) + 1, format, value...);
    out.resize(at + static_cast<size_t>(n));
}

void convert(std::string &out, Conversion &c, Arguments &arguments)
{
    switch (c.letter) {
    case 'd':
    case 'i':
        if (c.size == 8)
            append(out, c.finish("ll", c.letter),
                   static_cast<long long>(arguments.next<int64_t>()));
        else
            append(out, c.finish(c.width, c.letter), arguments.next<int>());
        return;
    case 'u':
    case 'o':
    case 'x':
    case 'X':
        if (c.size == 8)
            append(out, c.finish("ll", c.letter),
                   static_cast<unsigned long long>(arguments.next<uint64_t>()));
        else
            append(out, c.finish(c.width, c.letter), arguments.next<unsigned>());
        return;
    case 'f':
    case 'F':
    case 'e':
    case 'E':
    case 'g':
    case 'G':
    case 'a':
    case 'A': append(out, c.finish("", c.letter), arguments.next<double>()); return;
    case 'c': append(out, c.finish("", 'c'), arguments.next<int>()); return;
    case 'p': append(out, c.finish("", 'p'), arguments.next<const void *>()); return;
    case 's': {
        auto *text = arguments.next<const char *>();
        append(out, c.finish("", 's'), text ? text : "(null)");
        return;
    }
    case 'n': arguments.next<const void *>(); return;  // writes nothing on a device
    default:
        // Not a conversion: as it stands.
        out.append(c.text, c.length);
        if (c.letter) out += c.letter;
    }
}

}  // namespace

int format_device(std::string &out, const char *f, const void *packed)
{
    Arguments arguments(packed);
    while (*f) {
        size_t plain = strcspn(f, "%");
        out.append(f, plain);
        f += plain;
        if (!*f) break;
        if (f[1] == '%') {
            out += '%';
            f += 2;
            continue;
        }
        Conversion c;
        f = parse(f + 1, c, arguments);
        if (arguments.used() >= kMaxArguments) break;
        convert(out, c, arguments);
        if (!*f) break;
        ++f;
    }
    return arguments.used();
}

}  // namespace rgpu::softgpu::exec
