// SPDX-License-Identifier: Apache-2.0
#include "util/config.h"

#include <criterion/criterion.h>

using namespace rgpu;
using namespace std::chrono_literals;

// The text of the error that this file gives; empty: none.
static std::string wrong(const char *file)
{
    auto config = parse_config(file, "rgpu.conf");
    return config ? "" : config.error().text;
}

static bool has(const std::string &text, const char *part)
{
    return text.find(part) != std::string::npos;
}

Test(config, an_empty_file_is_all_defaults)
{
    auto config = parse_config("", "rgpu.conf");
    cr_assert(config.has_value());
    cr_assert_eq(config->auth.method, "munge");
    cr_assert_eq(config->rgpud.control_port, 7710);
    cr_assert_eq(config->rgpud.offer_timeout, 5s);
    cr_assert_eq(config->client.wait, 30min);
    cr_assert_not(config->rgpud.name.empty(), "the host's name stands in");
    cr_assert(config->servers.empty());
}

Test(config, every_kind_of_value_is_read)
{
    auto config = parse_config(R"(
[[server]]
name = "gpu1"
address = "10.0.0.1:7710"
[[server]]
name = "gpu2"
address = "[fd00::2]:7710"
node = "cn2"
[auth]
admins = ["root", "1234"]
[rgpud]
listen = "::"
softgpu_devices = 4
softgpu_memory = "512M"
offer_timeout = "1500ms"
open_metrics = true
)",
                               "rgpu.conf");
    cr_assert(config.has_value(), "%s", config ? "" : config.error().text.c_str());
    cr_assert_eq(config->servers.size(), 2u);
    cr_assert_eq(config->servers[1].address, "[fd00::2]:7710");
    cr_assert_eq(config->servers[0].node, "gpu1", "unless it is given, the node is the server's");
    cr_assert_eq(config->servers[1].node, "cn2");
    cr_assert_eq(config->auth.admins.size(), 2u);
    cr_assert_eq(config->rgpud.softgpu_devices, 4);
    cr_assert_eq(config->rgpud.softgpu_memory, 512u << 20);
    cr_assert_eq(config->rgpud.offer_timeout, 1500ms);
    cr_assert(config->rgpud.open_metrics);
}

Test(config, an_error_names_file_line_key_and_cure)
{
    struct {
        const char *file;
        const char *parts[3];
    } rows[] = {
        {"[rgpud]\n\nlissten = \"::\"\n", {"rgpu.conf:3:", "rgpud.lissten", "listen"}},
        {"[rgpud]\noffer_timeout = 5\n", {"rgpu.conf:2:", "rgpud.offer_timeout", "\"30s\""}},
        {"[rgpud]\noffer_timeout = \"5\"\n", {"rgpu.conf:2:", "rgpud.offer_timeout", "like 30s"}},
        {"[rgpud]\noffer_timeout = \"5h\"\n", {"rgpu.conf:2:", "out of range", "1m"}},
        {"[rgpud]\ncontrol_port = 70000\n", {"rgpu.conf:2:", "rgpud.control_port", "65535"}},
        {"[rgpud]\ncontrol_port = \"7710\"\n", {"rgpu.conf:2:", "number", "42"}},
        {"[rgpud]\nsoftgpu_memory = \"2X\"\n", {"rgpu.conf:2:", "rgpud.softgpu_memory", "like 2G"}},
        {"[rgpud]\nopen_metrics = \"yes\"\n",
         {"rgpu.conf:2:", "rgpud.open_metrics", "true or false"}},
        {"[rgpud]\nworker = \"\"\n", {"rgpu.conf:2:", "rgpud.worker", "empty"}},
        {"[rgpud]\nname = \"a b\"\n", {"rgpu.conf", "rgpud.name", "letters"}},
        {"[auth]\nmethod = \"mungo\"\n",
         {"rgpu.conf:2:", "auth.method", "\"munge\", \"key\", \"none\""}},
        {"[auth]\nadmins = \"root\"\n", {"rgpu.conf:2:", "auth.admins", "[\"a\", \"b\"]"}},
        {"[auth]\nadmins = [\"root\",\n 7]\n", {"rgpu.conf:3:", "auth.admins", "list"}},
        {"[servers]\n", {"rgpu.conf:1:", "servers", "[[server]]"}},
        {"[server]\nname = \"a\"\n", {"rgpu.conf:1:", "server", "two brackets"}},
        {"[[server]]\nname = \"a\"\n", {"rgpu.conf:1:", "server", "address"}},
        {"[[server]]\nname = \"a\"\naddress = \"gpu1\"\n", {"rgpu.conf:1:", "gpu1", "host:port"}},
        {"auth = 1\n", {"rgpu.conf:1:", "auth", "[auth]"}},
        {"[auth\n", {"rgpu.conf:1:", "", ""}},
    };
    for (auto &row : rows)
        for (const char *part : row.parts)
            cr_assert(has(wrong(row.file), part), "%s gave: %s", row.file, wrong(row.file).c_str());
}

Test(config, weights_of_qos)
{
    auto config = parse_config(
        "[rgpud]\nqos_weights = [\"high=4\", \"low=0.5\"]\nmax_kernel = \"10s\"\n", "rgpu.conf");
    cr_assert(config.has_value(), "%s", config.error().text.c_str());
    cr_assert_eq(config->rgpud.qos_weights.size(), 2);
    cr_expect_eq(config->rgpud.max_kernel, 10s);
    auto weight = parse_qos_weight(config->rgpud.qos_weights[1]);
    cr_expect(weight && weight->qos == "low" && weight->hundredths == 50);
    for (const char *entry :
         {"high", "=4", "high=", "high=0", "high=x", "high=4x", "high=nan", "high=1e9"})
        cr_expect(has(wrong(("[rgpud]\nqos_weights = [\"" + std::string(entry) + "\"]\n").c_str()),
                      "weight of a QOS"),
                  "%s", entry);
}

Test(config, two_servers_of_one_name_are_refused)
{
    cr_assert(has(
        wrong("[[server]]\nname=\"a\"\naddress=\"h:1\"\n[[server]]\nname=\"a\"\naddress=\"h:2\"\n"),
        "twice"));
}

Test(config, a_missing_file_is_named_with_its_cure)
{
    auto config = load_config("/nonexistent/rgpu.conf");
    cr_assert_not(config.has_value());
    cr_assert(has(config.error().text, "/nonexistent/rgpu.conf"));
    cr_assert(has(config.error().text, "RGPU_CONF"));
}

Test(config, each_key_reads_back_its_own_default)
{
    Config config;
    ServerEntry server;
    for (const ConfigKey &key : config_keys()) {
        if (std::string(key.table) == "server") continue;
        std::string value = written(key.field(config, server));
        std::string file = std::string("[") + key.table + "]\n" + key.name + " = " + value + "\n";
        bool host_name = std::string(key.table) == "rgpud" && std::string(key.name) == "name";
        auto read = parse_config(file, "rgpu.conf");
        cr_assert(read.has_value(), "%s: %s", file.c_str(), read ? "" : read.error().text.c_str());
        if (!host_name) cr_assert_eq(written(key.field(*read, server)), value, "%s", file.c_str());
        cr_assert(key.help && key.help[0]);
    }
}

Test(config, addresses_are_split)
{
    auto v6 = parse_address("[::1]:7710");
    cr_assert(v6.has_value());
    cr_assert_eq(v6->host, "::1");
    cr_assert_eq(v6->port, 7710);
    for (const char *text :
         {"", "host", ":1", "host:", "host:0", "host:65536", "host:x", "::1:7710", "[]:1"})
        cr_assert_not(parse_address(text).has_value(), "%s", text);
}

Test(config, loopback_is_known)
{
    for (const char *host : {"127.0.0.1", "127.1.2.3", "::1", "localhost"})
        cr_assert(is_loopback(host), "%s", host);
    for (const char *host : {"0.0.0.0", "::", "127.evil.example", "10.0.0.1", ""})
        cr_assert_not(is_loopback(host), "%s", host);
}
