// SPDX-License-Identifier: Apache-2.0
// The audit's lines: what is in them, that nothing in them makes a second line or another member,
// and how many there are.
#include <criterion/criterion.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "rgpud/leases/audit.h"

using namespace rgpu;
using serverd::Audit;

namespace {

pool::Owner owner()
{
    pool::Owner owner;
    owner.uid = 1000;
    owner.user = "ada";
    owner.job = "17";
    owner.node = "cn1";
    return owner;
}

std::vector<std::string> lines_of(const std::string &path)
{
    std::ifstream in(path);
    std::vector<std::string> lines;
    for (std::string line; std::getline(in, line);) lines.push_back(line);
    return lines;
}

struct Directory {
    std::string path = std::filesystem::temp_directory_path() /
                       ("rgpu-audit-" + std::to_string(getpid()));
    Directory() { std::filesystem::create_directory(path); }
    ~Directory() { std::filesystem::remove_all(path); }
};

}  // namespace

Test(audit, says_who_what_and_from_where)
{
    const pool::Owner of = owner();
    const Audit::Event event{.act = "grant",
                             .what = "lease 1234abcd",
                             .from = "10.0.0.1",
                             .uid = 0,
                             .owner = &of,
                             .gpus = "2 GPUs"};
    cr_assert(Audit::text_of(event) == "act=grant what=\"lease 1234abcd\" gpus=\"2 GPUs\" "
                                       "owner_uid=1000 user=ada job=17 node=cn1 uid=0 "
                                       "from=10.0.0.1");
    const auto json = nlohmann::json::parse(Audit::json_of(event));
    cr_assert(json["act"] == "grant" && json["job"] == "17" && json["uid"] == "0");
    cr_assert(!json.contains("why"));
}

Test(audit, hostile_texts_stay_values)
{
    const Audit::Event event{.act = "refuse",
                             .what = "GET /x\nact=grant",
                             .why = "a \"quoted\" \\ word, act=grant, \x80\xff",
                             .from = "::1"};
    const std::string text = Audit::text_of(event);
    cr_assert(text.find('\n') == text.npos);
    cr_assert(text == "act=refuse what=\"GET /x?act=grant\" from=::1 "
                      "why=\"a \\\"quoted\\\" \\\\ word, act=grant, ??\"");
    const std::string json = Audit::json_of(event);
    cr_assert(json.find('\n') == json.npos);
    cr_assert(nlohmann::json::parse(json)["what"] == "GET /x\nact=grant");
}

Test(audit, a_file_is_private_and_opened_again_when_it_was_moved)
{
    const Directory directory;
    RgpudConfig config;
    config.audit = "json";
    config.audit_file = directory.path + "/audit";
    auto audit = Audit::open(config);
    cr_assert(audit.has_value());
    (*audit)->say({.act = "drain", .what = "all GPUs", .uid = 0});
    struct stat about {};
    cr_assert(stat(config.audit_file.c_str(), &about) == 0 && (about.st_mode & 0777) == 0600);
    std::filesystem::rename(config.audit_file, config.audit_file + ".1");
    (*audit)->say({.act = "resume", .what = "all GPUs", .uid = 0});
    cr_assert(lines_of(config.audit_file + ".1").size() == 1);
    const auto lines = lines_of(config.audit_file);
    cr_assert(lines.size() == 1);
    const auto json = nlohmann::json::parse(lines[0]);
    cr_assert(json["act"] == "resume" && json.contains("time"));
    config.audit_file = directory.path + "/none/audit";
    auto none = Audit::open(config);
    cr_assert(!none && none.error().text.find("/none/audit") != std::string::npos);
}

Test(audit, strangers_cannot_fill_it_and_members_are_heard_meanwhile)
{
    const Directory directory;
    RgpudConfig config;
    config.audit = "text";
    config.audit_file = directory.path + "/audit";
    auto audit = Audit::open(config);
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; i++)
        threads.emplace_back([&] {
            for (int n = 0; n < 2500; n++) (*audit)->say({.act = "refuse", .from = "10.0.0.9"});
        });
    for (std::thread &t : threads) t.join();
    const pool::Owner of = owner();
    (*audit)->say({.act = "grant", .uid = 1000, .owner = &of});
    const auto lines = lines_of(config.audit_file);
    cr_assert(lines.size() >= 31 && lines.size() < 60, "%zu", lines.size());
    cr_assert(lines.back().find("left_out=99") != std::string::npos, "%s", lines.back().c_str());
    cr_assert(lines.back().find("act=grant") != std::string::npos);
}

Test(audit, members_cannot_hide_what_is_done_behind_refusals)
{
    const Directory directory;
    RgpudConfig config;
    config.audit = "text";
    config.audit_file = directory.path + "/audit";
    auto audit = Audit::open(config);
    for (int n = 0; n < 5000; n++) (*audit)->say({.act = "refuse", .uid = 1000});
    (*audit)->say({.act = "drain", .what = "all GPUs", .uid = 1000});
    const auto lines = lines_of(config.audit_file);
    cr_assert(lines.size() < 2000, "%zu", lines.size());
    cr_assert(lines.back().find("act=drain") != std::string::npos, "%s", lines.back().c_str());
}

Test(audit, off_writes_nothing)
{
    const Directory directory;
    RgpudConfig config;
    config.audit_file = directory.path + "/audit";
    auto audit = Audit::open(config);
    (*audit)->say({.act = "drain", .uid = 0});
    cr_assert(access(config.audit_file.c_str(), F_OK) != 0);
}
