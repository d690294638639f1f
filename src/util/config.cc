// SPDX-License-Identifier: Apache-2.0
#include "util/config.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <climits>
#include <cmath>
#include <cstdlib>
#include <cstring>

#include <toml++/toml.h>

#include "util/next_token.h"

namespace rgpu {
namespace {

constexpr size_t kMaxFile = 4 * 1024 * 1024;

template <class... F> struct Overloaded : F... {
    using F::operator()...;
};
template <class... F> Overloaded(F...) -> Overloaded<F...>;

// Collects where we are, so that each error is one statement.
struct KeyInFile {
    const std::string &path;
    std::string key;  // "rgpud.listen"

    [[gnu::format(printf, 3, 4)]] Error wrong(const toml::node &node, const char *format, ...) const
    {
        char text[512];
        va_list args;
        va_start(args, format);
        vsnprintf(text, sizeof text, format, args);
        va_end(args);
        return error(ErrorKind::invalid, "%s:%u: %s: %s", path.c_str(),
                     static_cast<unsigned>(node.source().begin.line), key.c_str(), text);
    }
};

Result<void> in_range(const ConfigKey &key, int64_t value, const KeyInFile &place,
                      const toml::node &node, std::string (*write)(int64_t))
{
    if (key.low == key.high || (value >= key.low && value <= key.high)) return {};
    return place.wrong(node, "%s is out of range: it must be from %s to %s", write(value).c_str(),
                       write(key.low).c_str(), write(key.high).c_str());
}

// What an entry of the wrong type is told: the right type, with an example.
Error wrong_type(const ConfigField &field, const KeyInFile &place, const toml::node &node)
{
    const char *example =
        std::visit(Overloaded{
                       [](std::string *) { return "\"text\""; },
                       [](bool *) { return "true or false"; },
                       [](int64_t *) { return "42"; },
                       [](uint64_t *) { return "\"2G\""; },
                       [](Milliseconds *) { return "\"30s\""; },
                       [](std::vector<std::string> *) { return "[\"a\", \"b\"]"; },
                   },
                   field);
    return place.wrong(node, "must be a %s, written like %s", type_of(field), example);
}

bool is_choice(const ConfigKey &key, const std::string &text)
{
    return std::find(key.choices.begin(), key.choices.end(), text) != key.choices.end();
}

Result<void> set_text(std::string *to, const ConfigKey &key, const toml::node &node,
                      const KeyInFile &place)
{
    auto text = node.value_exact<std::string>();
    // A choice between yes, no and more.
    if (const auto yes = node.value_exact<bool>(); yes && is_choice(key, "true"))
        text = *yes ? "true" : "false";
    if (!text) return wrong_type(to, place, node);
    if (key.needed && text->empty()) return place.wrong(node, "must not be empty");
    if (!key.choices.empty() && !is_choice(key, *text)) {
        std::string all;
        for (const char *choice : key.choices)
            all += std::string(all.empty() ? "" : ", ") + "\"" + choice + "\"";
        return place.wrong(node, "\"%s\" is not known here: write one of %s", text->c_str(),
                           all.c_str());
    }
    *to = *text;
    return {};
}

Result<void> set_list(std::vector<std::string> *to, const ConfigKey &key, const toml::node &node,
                      const KeyInFile &place)
{
    const toml::array *array = node.as_array();
    if (!array) return wrong_type(to, place, node);
    to->clear();
    for (const toml::node &element : *array) {
        auto text = element.value_exact<std::string>();
        if (!text) return wrong_type(to, place, element);
        if (Result<void> good = key.element ? key.element(*text) : Result<void>(); !good)
            return place.wrong(element, "%s", good.error().text.c_str());
        to->push_back(*text);
    }
    return {};
}

// A number with a unit, written as text: Parse makes the number.
template <class T, class Parse, class Write>
Result<void> set_measure(T *to, const ConfigKey &key, const toml::node &node,
                         const KeyInFile &place, Parse parse, Write write)
{
    auto text = node.value_exact<std::string>();
    if (!text) return wrong_type(to, place, node);
    auto value = parse(*text);
    if (!value) return place.wrong(node, "%s", value.error().text.c_str());
    *to = *value;
    return in_range(key, static_cast<int64_t>(write(*value)), place, node, [](int64_t number) {
        if constexpr (std::is_same_v<T, Milliseconds>)
            return format_duration(Milliseconds(number));
        else
            return format_size(static_cast<uint64_t>(number));
    });
}

Result<void> set_number(int64_t *to, const ConfigKey &key, const toml::node &node,
                        const KeyInFile &place)
{
    auto number = node.value_exact<int64_t>();
    if (!number) return wrong_type(to, place, node);
    *to = *number;
    return in_range(key, *number, place, node, [](int64_t n) { return std::to_string(n); });
}

Result<void> set_field(const ConfigField &field, const ConfigKey &key, const toml::node &node,
                       const KeyInFile &place)
{
    return std::visit(
        Overloaded{
            [&](std::string *to) { return set_text(to, key, node, place); },
            [&](std::vector<std::string> *to) { return set_list(to, key, node, place); },
            [&](int64_t *to) { return set_number(to, key, node, place); },
            [&](bool *to) -> Result<void> {
                auto value = node.value_exact<bool>();
                if (!value) return wrong_type(to, place, node);
                *to = *value;
                return {};
            },
            [&](uint64_t *to) {
                return set_measure(to, key, node, place, parse_size,
                                   [](uint64_t bytes) { return bytes; });
            },
            [&](Milliseconds *to) {
                return set_measure(to, key, node, place, parse_duration,
                                   [](Milliseconds time) { return time.count(); });
            },
        },
        field);
}

std::string names_under(const char *table)
{
    std::string names;
    for (const ConfigKey &key : config_keys())
        if (!strcmp(key.table, table)) names += std::string(names.empty() ? "" : ", ") + key.name;
    return names;
}

Result<void> read_table(const char *table, const toml::table &entries, Config &config,
                        ServerEntry &server)
{
    for (auto &&[name, node] : entries) {
        KeyInFile place{config.path, std::string(table) + "." + std::string(name.str())};
        const ConfigKey *known = nullptr;
        for (const ConfigKey &key : config_keys())
            if (!strcmp(key.table, table) && name.str() == key.name) known = &key;
        if (!known)
            return place.wrong(node, "unknown key; those of [%s] are: %s", table,
                               names_under(table).c_str());
        Result<void> set = set_field(known->field(config, server), *known, node, place);
        if (!set) return set;
    }
    return {};
}

// Names stand in logs, tables and JSON.
bool plain_name(std::string_view name)
{
    return !name.empty() && name.size() <= 64 &&
           std::all_of(name.begin(), name.end(), [](unsigned char c) {
               return isalnum(c) || c == '.' || c == '_' || c == '-';
           });
}

Result<void> read_server(const toml::node &node, Config &config)
{
    KeyInFile place{config.path, "server"};
    const toml::table *entries = node.as_table();
    if (!entries)
        return place.wrong(node, "must be a table: write [[server]] above its name and address");
    ServerEntry server;
    Result<void> read = read_table("server", *entries, config, server);
    if (!read) return read;
    if (server.name.empty() || server.address.empty())
        return place.wrong(node, "each [[server]] needs a name and an address");
    Result<HostPort> address = parse_address(server.address);
    if (!address) return place.wrong(node, "%s", address.error().text.c_str());
    if (!server.pin.empty())
        if (Result<void> right = check_pin(server.pin); !right)
            return place.wrong(node, "pin of %s: %s", server.name.c_str(),
                               right.error().text.c_str());
    if (const toml::node *name = entries->get("name")) server.name_line = name->source().begin.line;
    if (const toml::node *pin = entries->get("pin")) server.pin_line = pin->source().begin.line;
    if (server.node.empty()) server.node = server.name;
    if (!plain_name(server.name))
        return place.wrong(node, "\"%s\" is no name: use letters, digits, and . _ -",
                           server.name.c_str());
    for (const ServerEntry &other : config.servers)
        if (other.name == server.name)
            return place.wrong(node,
                               "the name \"%s\" is given twice; each [[server]] needs its own",
                               server.name.c_str());
    config.servers.push_back(std::move(server));
    return {};
}

Result<void> read_part(std::string_view name, const toml::node &node, Config &config)
{
    KeyInFile place{config.path, std::string(name)};
    if (name == "server") {
        const toml::array *servers = node.as_array();
        if (!servers)
            return place.wrong(node, "write [[server]] with two brackets: there can be several");
        for (const toml::node &server : *servers) {
            Result<void> read = read_server(server, config);
            if (!read) return read;
        }
        return {};
    }
    const char *table = nullptr;
    for (const ConfigKey &key : config_keys())
        if (name == key.table) table = key.table;
    if (!table)
        return place.wrong(
            node, "unknown; a file has [[server]], [auth], [rgpud], [client], [slurm] and [pool]");
    if (!node.is_table())
        return place.wrong(node, "must be a table: write [%s] on a line of its own", table);
    ServerEntry none;
    return read_table(table, *node.as_table(), config, none);
}

std::string short_host_name()
{
    char name[HOST_NAME_MAX + 1] = {};
    if (gethostname(name, HOST_NAME_MAX) != 0 || !name[0]) return "localhost";
    std::string text = name;
    return text.substr(0, text.find('.'));
}

Result<std::string> read_file(const std::string &path)
{
    int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return error(ErrorKind::invalid,
                     "%s: %s; write the file (rgpu.conf(5)) or name another with RGPU_CONF",
                     path.c_str(), strerror(errno));
    std::string text;
    char block[16384];
    ssize_t n;
    while ((n = read(fd, block, sizeof block)) > 0 && text.size() < kMaxFile)
        text.append(block, static_cast<size_t>(n));
    int failure = n < 0 ? errno : text.size() >= kMaxFile ? EFBIG : 0;
    close(fd);
    if (failure) return error(ErrorKind::invalid, "%s: %s", path.c_str(), strerror(failure));
    return text;
}

}  // namespace

std::string config_path(std::string_view option)
{
    if (!option.empty()) return std::string(option);
    const char *environment = getenv("RGPU_CONF");
    return environment && *environment ? environment : defaults::kConfigPath;
}

Result<Config> load_config(const std::string &path)
{
    Result<std::string> text = read_file(path);
    if (!text) return std::move(text).error();
    return parse_config(*text, path);
}

Result<Config> parse_config(std::string_view text, const std::string &path)
{
    Config config;
    config.path = path;
    try {
        toml::table file = toml::parse(text, path);
        for (auto &&[name, node] : file) {
            Result<void> read = read_part(name.str(), node, config);
            if (!read) return std::move(read).error();
        }
    } catch (const toml::parse_error &failure) {
        return error(ErrorKind::invalid, "%s:%u: %s", path.c_str(),
                     static_cast<unsigned>(failure.source().begin.line),
                     std::string(failure.description()).c_str());
    }
    if (config.rgpud.name.empty()) config.rgpud.name = short_host_name();
    if (!plain_name(config.rgpud.name))
        return error(ErrorKind::invalid,
                     "%s: rgpud.name: \"%s\" is no name: use letters, digits, and . _ -",
                     path.c_str(), config.rgpud.name.c_str());
    return config;
}

const char *type_of(const ConfigField &field)
{
    return std::visit(Overloaded{
                          [](std::string *) { return "text"; },
                          [](bool *) { return "yes or no"; },
                          [](int64_t *) { return "number"; },
                          [](uint64_t *) { return "size"; },
                          [](Milliseconds *) { return "time"; },
                          [](std::vector<std::string> *) { return "list of texts"; },
                      },
                      field);
}

std::string written(const ConfigField &field)
{
    auto quote = [](const std::string &text) { return "\"" + text + "\""; };
    return std::visit(Overloaded{
                          [&](std::string *text) {
                              return *text == "true" || *text == "false" ? *text : quote(*text);
                          },
                          [](bool *yes) { return std::string(*yes ? "true" : "false"); },
                          [](int64_t *number) { return std::to_string(*number); },
                          [&](uint64_t *bytes) { return quote(format_size(*bytes)); },
                          [&](Milliseconds *time) { return quote(format_duration(*time)); },
                          [&](std::vector<std::string> *list) {
                              std::string all;
                              for (const std::string &text : *list)
                                  all += (all.empty() ? "" : ", ") + quote(text);
                              return "[" + all + "]";
                          },
                      },
                      field);
}

Result<HostPort> parse_address(std::string_view address)
{
    Error wrong = error(ErrorKind::invalid,
                        "\"%s\" is no address: write host:port, like \"gpu1:7710\"",
                        std::string(address.substr(0, 80)).c_str());
    size_t colon = address.rfind(':');
    if (colon == std::string_view::npos || colon == 0) return wrong;
    std::string_view host = address.substr(0, colon);
    Result<int64_t> port = parse_integer(address.substr(colon + 1), 1, 65535);
    if (!port) return wrong;
    if (host.front() == '[' && host.back() == ']')
        host = host.substr(1, host.size() - 2);
    else if (host.find(':') != std::string_view::npos)
        return wrong;
    if (host.empty()) return wrong;
    return HostPort{std::string(host), static_cast<int>(*port)};
}

bool is_loopback(std::string_view host)
{
    return host == "localhost" || host == "::1" || host == "[::1]" ||
           (host.starts_with("127.") &&
            host.find_first_not_of("0123456789.") == std::string_view::npos);
}

Result<QosWeight> parse_qos_weight(std::string_view entry)
{
    size_t equals = entry.rfind('=');
    std::string qos(entry.substr(0, equals)),
        number(equals == entry.npos ? "" : entry.substr(equals + 1));
    char *end = nullptr;
    double weight = strtod(number.c_str(), &end);
    if (qos.empty() || number.empty() || *end || !(weight >= 0.01 && weight <= 1000))
        return error(ErrorKind::invalid,
                     "\"%s\" is no weight of a QOS: write its name and a number from 0.01 to 1000, "
                     "like \"high=4\"",
                     std::string(entry.substr(0, 80)).c_str());
    return QosWeight{qos, static_cast<int>(std::lround(weight * 100))};
}

Result<void> check_pin(std::string_view text)
{
    constexpr std::string_view kBegins = "sha256//";
    constexpr size_t kLetters = 44;  // of 32 bytes in base64
    auto is_letter = [](unsigned char c) { return isalnum(c) || c == '+' || c == '/'; };
    std::string_view rest = text;
    do {
        std::string_view pin = next_token(rest, ";");
        const bool right = pin.size() == kBegins.size() + kLetters && pin.starts_with(kBegins) &&
                           std::all_of(pin.begin(), pin.end() - 1, is_letter) && pin.back() == '=';
        if (!right)
            return error(ErrorKind::invalid,
                         "\"%.*s\" is no pin: it is sha256// and 44 letters of base64, as rgpu "
                         "pin shows it",
                         static_cast<int>(pin.size()), pin.data());
    } while (!rest.empty());
    return {};
}

Result<UidRange> parse_uid_range(const std::string &text)
{
    constexpr uint32_t kLeast = 16;
    UidRange range;
    const char *const end = text.data() + text.size();
    auto [dash, first] = std::from_chars(text.data(), end, range.low);
    const auto [rest, second] = std::from_chars(dash == end ? end : dash + 1, end, range.high);
    if (first != std::errc() || second != std::errc() || *dash != '-' || rest != end ||
        range.low < defaults::kFirstUser || range.high < range.low ||
        range.high - range.low < kLeast - 1 || range.high == UINT32_MAX)
        return error(
            ErrorKind::invalid,
            "\"%.80s\" is no range of user ids: write the first and the last, like \"%s\", "
            "from %u on and at least %u of them",
            text.c_str(), defaults::kWorkerUids, defaults::kFirstUser, kLeast);
    return range;
}

}  // namespace rgpu
