// SPDX-License-Identifier: Apache-2.0
// Reads Slurm's configuration files; conf.h says what for.
#include "slurm/conf/conf.h"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util/fd.h"

namespace rgpu::slurm {
namespace {

constexpr size_t kMostBytes = size_t{64} << 20;  // of one file
constexpr size_t kMostFiles = 4096;              // with all includes
constexpr int kDeepest = 32;                     // includes in includes

// As isspace() and isalnum() are in the C locale.
bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

bool is_key(char c)
{
    char l = lower(c);
    return (l >= 'a' && l <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '.';
}

struct Char {
    char c;
    size_t at;  // in the file
};
using Chars = std::vector<Char>;

struct Line {
    Chars text;
    size_t number = 0, at = 0, end = 0;
    bool open = false;  // it ends with the file, and asks for more
};

// A line of the file up to its comment. A NUL ends it, too: Slurm reads C strings.
Chars without_comment(std::string_view text, size_t at, size_t end)
{
    Chars out;
    size_t backslashes = 0;
    for (; at < end; ++at) {
        char c = text[at];
        if (c == '\0' || (c == '#' && backslashes % 2 == 0)) break;
        backslashes = c == '\\' ? backslashes + 1 : 0;
        out.push_back({c, at});
    }
    return out;
}

// Takes the backslash away that says that the next line continues this one.
bool cut_continuation(Chars &line)
{
    size_t last = line.size();
    while (last > 0 && is_space(line[last - 1].c)) --last;
    size_t first = last;
    while (first > 0 && line[first - 1].c == '\\') --first;
    if ((last - first) % 2 == 0) return false;
    line.resize(last - 1);
    return true;
}

void cut_escapes(Chars &line)
{
    size_t to = 0;
    for (size_t i = 0; i < line.size(); ++i) {
        if (line[i].c == '\\' && ++i == line.size()) break;
        line[to++] = line[i];
    }
    line.resize(to);
}

Line next_line(std::string_view text, size_t &at, size_t &number)
{
    Line out{{}, number, at, at, true};
    while (out.open && at < text.size()) {
        size_t newline = text.find('\n', at),
               end = newline == text.npos ? text.size() : newline + 1;
        Chars part = without_comment(text, at, end);
        out.open = cut_continuation(part);
        out.text.insert(out.text.end(), part.begin(), part.end());
        out.end = at = end;
        ++number;
    }
    cut_escapes(out.text);
    return out;
}

size_t skip_space(const Chars &line, size_t i)
{
    while (i < line.size() && is_space(line[i].c)) ++i;
    return i;
}

size_t skip_word(const Chars &line, size_t i)
{
    while (i < line.size() && !is_space(line[i].c)) ++i;
    return i;
}

std::string text_of(const Chars &line, size_t from, size_t to)
{
    std::string out;
    for (size_t i = from; i < to; ++i) out += line[i].c;
    return out;
}

// The next Key=Value from `i` on, which is behind it then; `tail` is where the file goes on behind
// it.
std::optional<ConfSetting> next_setting(const Chars &line, size_t &i, size_t &tail)
{
    size_t key = skip_space(line, i), at = key;
    while (at < line.size() && is_key(line[at].c)) ++at;
    size_t key_end = at;
    at = skip_space(line, at);
    if (at < line.size() && strchr("-*+/", line[at].c)) ++at;
    if (key == key_end || at >= line.size() || line[at].c != '=') return {};
    size_t value = skip_space(line, at + 1);
    if (value == line.size()) return {};
    size_t value_end = skip_word(line, value), end = value_end;
    if (line[value].c == '"') {
        size_t quote = value + 1;
        while (quote < line.size() && line[quote].c != '"') ++quote;
        if (quote < line.size() && (quote + 1 == line.size() || is_space(line[quote + 1].c))) {
            ++value;
            value_end = quote;
            end = quote + 1;
        }
    }
    i = end;
    tail = line[end - 1].at + 1;
    ConfSetting out{text_of(line, key, key_end), text_of(line, value, value_end), line[value].at,
                    0};
    out.end = value == value_end ? out.at : line[value_end - 1].at + 1;
    return out;
}

std::string included_by(const Chars &line)
{
    constexpr size_t kWord = 7;
    if (line.size() <= kWord || !same_key(text_of(line, 0, kWord), "include") ||
        !is_space(line[kWord].c))
        return {};
    size_t name = skip_space(line, kWord);
    return text_of(line, name, skip_word(line, name));
}

}  // namespace

bool same_key(std::string_view a, std::string_view b)
{
    return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                      [](char x, char y) { return lower(x) == lower(y); });
}

const ConfSetting *ConfEntry::find(std::string_view key) const
{
    for (const ConfSetting &setting : settings)
        if (same_key(setting.key, key)) return &setting;
    return nullptr;
}

std::vector<ConfEntry> parse_conf(std::string_view text)
{
    std::vector<ConfEntry> out;
    size_t at = 0, number = 1;
    while (at < text.size()) {
        Line line = next_line(text, at, number);
        ConfEntry entry{{}, included_by(line.text), line.number, line.at, line.end, line.end};
        size_t i = 0;
        while (entry.include.empty()) {
            auto setting = next_setting(line.text, i, entry.tail);
            if (!setting) break;
            entry.settings.push_back(std::move(*setting));
        }
        if (!entry.include.empty() || !entry.settings.empty()) out.push_back(std::move(entry));
    }
    return out;
}

bool ends_open(std::string_view text)
{
    bool open = false;
    for (size_t at = 0, number = 1; at < text.size();) open = next_line(text, at, number).open;
    return open;
}

std::string conf_escaped(std::string_view value)
{
    std::string out;
    for (char c : value) {
        if (c == '\\' || c == '#') out += '\\';
        out += c;
    }
    return out;
}

std::string real_path(const std::string &path)
{
    char *real = realpath(path.c_str(), nullptr);
    std::string out = real ? real : path;
    free(real);
    return out;
}

Result<std::string> read_bytes(const std::string &path)
{
    Fd file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
    struct stat status;
    if (!file || fstat(file.get(), &status) != 0)
        return error(errno == ENOENT ? ErrorKind::unavailable : ErrorKind::invalid, "%s: %s",
                     path.c_str(), strerror(errno));
    if (!S_ISREG(status.st_mode))
        return error(ErrorKind::invalid, "%s is not a file", path.c_str());
    std::string out;
    char buffer[65536];
    for (ssize_t n; (n = read(file.get(), buffer, sizeof buffer)) != 0;) {
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return error(ErrorKind::invalid, "%s: %s", path.c_str(), strerror(errno));
        out.append(buffer, static_cast<size_t>(n));
        if (out.size() > kMostBytes)
            return error(ErrorKind::invalid, "%s is too large for a configuration file",
                         path.c_str());
    }
    return out;
}

const PlacedEntry *Conf::last(std::string_view key) const
{
    auto found = std::find_if(entries.rbegin(), entries.rend(), [&](const PlacedEntry &e) {
        return same_key(e.entry.settings[0].key, key);
    });
    return found == entries.rend() ? nullptr : &*found;
}

std::optional<std::string> Conf::value(std::string_view key) const
{
    const PlacedEntry *entry = last(key);
    return entry ? std::optional(entry->entry.settings[0].value) : std::nullopt;
}

namespace {

class Reader {
public:
    explicit Reader(std::string cluster) : cluster_(std::move(cluster)) {}

    Result<Conf> read(const std::string &path)
    {
        folder_ = path.substr(0, path.find_last_of('/') + 1);
        auto text = read_bytes(path);
        if (!text && text.error().kind == ErrorKind::unavailable) {
            out_.files.push_back({path, path, false, {}});
            return std::move(out_);
        }
        if (!text) return std::move(text).error();
        if (auto all = take(path, std::move(*text), 0); !all) return std::move(all).error();
        return std::move(out_);
    }

private:
    Result<void> take(const std::string &path, std::string text, int depth)
    {
        std::string real = real_path(path);
        auto known = std::find_if(out_.files.begin(), out_.files.end(),
                                  [&](const ConfFile &f) { return f.real == real; });
        size_t file = static_cast<size_t>(known - out_.files.begin());
        std::vector<ConfEntry> entries = parse_conf(text);
        if (known == out_.files.end()) out_.files.push_back({path, real, true, std::move(text)});
        for (ConfEntry &entry : entries) {
            if (entry.include.empty()) {
                if (same_key(entry.settings[0].key, "ClusterName"))
                    cluster_ = entry.settings[0].value;
                out_.entries.push_back({file, std::move(entry)});
            } else if (auto included = include(entry, depth + 1); !included) {
                return std::move(included).error().in(path + ":" + std::to_string(entry.line));
            }
        }
        return {};
    }

    Result<void> include(const ConfEntry &entry, int depth)
    {
        if (depth > kDeepest || ++files_ > kMostFiles)
            return Error{ErrorKind::invalid,
                         "include " + entry.include + ": files include each other without end"};
        std::string name = entry.include;
        std::string cluster = cluster_;
        std::transform(cluster.begin(), cluster.end(), cluster.begin(), lower);
        for (size_t at = name.find("%c"); at != name.npos;
             at = name.find("%c", at + cluster.size()))
            name.replace(at, 2, cluster);
        std::string path = name[0] == '/' ? name : folder_ + name;
        auto text = read_bytes(path);
        return text ? take(path, std::move(*text), depth) : Result<void>(std::move(text).error());
    }

    std::string cluster_, folder_;
    Conf out_;
    size_t files_ = 0;
};

}  // namespace

Result<Conf> read_conf(const std::string &path, const std::string &cluster)
{
    return Reader(cluster).read(path);
}

}  // namespace rgpu::slurm
