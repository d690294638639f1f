// SPDX-License-Identifier: Apache-2.0
// Nodes whose configuration differs.
#include <criterion/criterion.h>

#include <cstdlib>
#include <fstream>

#include "slurm/check/drift.h"

using namespace rgpu;
using namespace rgpu::slurm;

static std::string digests(const std::string &toml)
{
    auto config = parse_config(toml, "rgpu.conf");
    cr_assert(config, "%s", config.error().text.c_str());
    return config_digests(*config);
}

static std::string part(const std::string &words, const std::string &name)
{
    size_t at = (" " + words).find(" " + name + ":");
    return at == words.npos ? "" : words.substr(at, words.find(' ', at) - at);
}

static const std::string kServers =
    "[[server]]\nname = \"a\"\naddress = \"a:1\"\n[[server]]\nname = \"b\"\naddress = \"b:1\"\n";

Test(drift, digests_tell_what_counts)
{
    unsetenv("SLURM_CONF");
    std::string one = digests(kServers);
    cr_expect(digests("# comment\n[[server]]\naddress = \"b:1\"\nname = \"b\"\n[[server]]\nname = "
                      "\"a\"\naddress = \"a:1\"\n") == one,
              "order and comments");
    cr_expect(digests(kServers + "[client]\nwait = \"30m\"\n") == one,
              "what is the default anyway");
    cr_expect(digests(kServers + "[rgpud]\nwarm = false\n") == one, "what is rgpud's own");
    std::string other = digests(kServers + "[client]\nwait = \"9m\"\n");
    cr_expect(part(other, "client") != part(one, "client") &&
              part(other, "server") == part(one, "server"));
    std::string moved = digests("[[server]]\nname = \"a\"\naddress = \"a:2\"\n");
    cr_expect(part(moved, "server") != part(one, "server") &&
              part(moved, "auth") == part(one, "auth"));
    cr_expect(part(one, "version") == "version:" RGPU_VERSION);
    cr_expect(part(one, "plugstack").empty());
}

Test(drift, the_line_of_plugstack_conf_counts)
{
    char name[] = "/tmp/rgpu-slurm-drift.XXXXXX";
    std::string folder = mkdtemp(name);
    auto write = [&](const char *file, const std::string &text) {
        std::ofstream(folder + "/" + file) << text;
    };
    setenv("SLURM_CONF", (folder + "/slurm.conf").c_str(), 1);
    write("slurm.conf", "ClusterName=a\n");
    cr_expect(part(digests(kServers), "plugstack").empty());
    write("plugstack.conf", "optional other.so\nrequired  /a/spank_rgpu.so rundir=/x # ours\n");
    std::string one = part(digests(kServers), "plugstack");
    cr_expect(!one.empty());
    write("plugstack.conf", "required /a/spank_rgpu.so rundir=/x\n");
    cr_expect(part(digests(kServers), "plugstack") == one, "other lines and spaces do not count");
    write("plugstack.conf", "required /a/spank_rgpu.so rundir=/y\n");
    cr_expect(part(digests(kServers), "plugstack") != one);
    unsetenv("SLURM_CONF");
    (void)!system(("rm -r " + folder).c_str());
}

Test(drift, the_same_everywhere_is_silent)
{
    cr_expect(compare_node_configs({}, "client:1", {"cn1"}).empty());
    cr_expect(compare_node_configs({{"cn1", "client:1 auth:2", 0}, {"cn2", "client:1", 0}},
                                   "client:1", {"cn1", "cn2"})
                  .empty());
    cr_expect(compare_node_configs({{"gone", "client:2", 0}}, "client:1", {"cn1"}).empty(),
              "Slurm knows no such node");
}

Test(drift, a_node_that_differs_is_named)
{
    auto found = compare_node_configs({{"cn1", "auth:1 client:1", 0},
                                       {"cn2", "auth:1 client:2", 7 * 60000},
                                       {"cn3", "auth:1 client:1", 0}},
                                      "auth:1 client:1", {"cn1", "cn2", "cn3"});
    cr_assert_eq(found.size(), 1);
    cr_expect(found[0].check == "configuration" && found[0].of == "node cn2" &&
              found[0].found == "its rgpu.conf ([client]) differs from most machines'");
    cr_expect(found[0].cure.find("7 minutes ago") != std::string::npos, "%s",
              found[0].cure.c_str());
}

Test(drift, what_a_node_said_last_counts)
{
    std::vector<pool::NodeConfig> told = {
        {"cn1", "client:2", 9000}, {"cn1", "client:1", 10}, {"cn1", "client:2", 5000}};
    cr_expect(compare_node_configs(told, "client:1", {"cn1"}).empty());
}

Test(drift, the_controller_decides_between_two)
{
    auto found = compare_node_configs({{"cn1", "client:2", 0}}, "client:1", {"cn1"});
    cr_assert_eq(found.size(), 1);
    cr_expect(found[0].of == "node cn1");
    found = compare_node_configs({{"cn1", "client:2", 0}, {"cn2", "client:2", 0}}, "client:1",
                                 {"cn1", "cn2"});
    cr_assert_eq(found.size(), 1);
    cr_expect(found[0].of == "this machine");
    cr_expect(compare_node_configs({{"cn1", "nonsense :x a: ", 0}}, "client:1", {"cn1"}).empty());
}
