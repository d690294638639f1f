// SPDX-License-Identifier: Apache-2.0
// Slurm's configuration files: what is read, and where it stands.
#include <criterion/criterion.h>

#include <cstdlib>
#include <fstream>
#include <random>
#include <unistd.h>

#include "slurm/conf/conf.h"

using namespace rgpu;
using namespace rgpu::slurm;

// "Key=Value Key=Value; Key=Value": entries, and the bytes that the values say they have.
static std::string told(const std::string &text)
{
    std::string out;
    for (const ConfEntry &entry : parse_conf(text)) {
        out += out.empty() ? "" : "; ";
        out += entry.include.empty() ? "" : "include " + entry.include;
        for (size_t i = 0; i < entry.settings.size(); ++i)
            out += (i ? " " : "") + entry.settings[i].key + "=" + entry.settings[i].value;
    }
    return out;
}

static void expect(const std::string &text, const std::string &wanted)
{
    std::string got = told(text);
    cr_expect(got == wanted, "%s gave «%s», not «%s»", text.c_str(), got.c_str(), wanted.c_str());
}

static ConfSetting first(const std::string &text)
{
    auto entries = parse_conf(text);
    cr_assert(!entries.empty() && !entries[0].settings.empty(), "%s has no setting", text.c_str());
    return entries[0].settings[0];
}

Test(conf, reads_keys_and_values)
{
    expect("ClusterName=a\nGresTypes=gpu,mps\n", "ClusterName=a; GresTypes=gpu,mps");
    expect("NodeName=cn[1-2] CPUs=4 Gres=gpu:1\n", "NodeName=cn[1-2] CPUs=4 Gres=gpu:1");
    expect("  Key = value\n", "Key=value");
    expect("Reason=\"a b\" Next=1\n", "Reason=a b Next=1");
    expect("Empty=\"\" Next=1\n", "Empty= Next=1");
    expect("Power+=1\n", "Power=1");
    expect("No end", "");
    expect("Key=no-newline", "Key=no-newline");
}

Test(conf, leaves_out_what_slurm_would_not_take)
{
    expect("", "");
    expect("\n \n\t\n# Key=1\n", "");
    expect("Key=\n=value\nword\n&Key=1\n", "");
    expect("Good=1 bad Key=2\n", "Good=1");
    expect("Quote=\"a b\n", "Quote=\"a");
    expect("Quote=\"a b\"c\n", "Quote=\"a");
}

Test(conf, ends_lines_at_comments)
{
    expect("Key=1 # Other=2\n", "Key=1");
    expect("Key=1# Other=2\n", "Key=1");
    expect("Key=a\\#b # c\n", "Key=a#b");
    expect("Key=a\\\\#b\n", "Key=a\\");
    expect(std::string("Key=1\0Other=2\nNext=3\n", 22), "Key=1; Next=3");
}

Test(conf, continues_lines)
{
    expect("Key=a,\\\nb\n", "Key=a,b");
    expect("NodeName=cn1 \\\n  CPUs=4 \\ \n Gres=gpu:1\nNext=1\n",
           "NodeName=cn1 CPUs=4 Gres=gpu:1; Next=1");
    expect("Key=a\\ # comment\nb\n", "Key=ab");
    expect("Key=a\\\\\nb=1\n", "Key=a\\; b=1");
    expect("# no \\\nKey=1\n", "Key=1");
    expect("Key=a\\\r\nb\r\n", "Key=ab");
    cr_expect(ends_open("A=1\nB=2 \\"));
    cr_expect(ends_open("A=1\nB=2 \\\n"));
    cr_expect(ends_open("A=1 \\\r\n"));
    cr_expect(!ends_open("A=1 \\\nB=2\n"));
    cr_expect(!ends_open("A=1\n# \\\n"));
    cr_expect(!ends_open(""));
}

Test(conf, counts_lines)
{
    auto entries = parse_conf("# one\nA=1\n\nB=2 \\\nC=3\nD=4\n");
    cr_assert_eq(entries.size(), 3);
    cr_expect_eq(entries[0].line, 2);
    cr_expect_eq(entries[1].line, 4);
    cr_expect_eq(entries[2].line, 6);
}

Test(conf, knows_where_values_stand)
{
    struct {
        const char *text, *value;
    } cases[] = {{"Key=gpu,mps # c\n", "gpu,mps"},
                 {"Key=\"a b\"\n", "a b"},
                 {"A\t=  x\r\n", "x"},
                 {"K=a\\#b\n", "a\\#b"},
                 {"K=a,\\\n  \n", "a,"},
                 {"K=a,\\\nb\n", "a,\\\nb"},
                 {"K=\"\"\n", ""}};
    for (const auto &c : cases) {
        ConfSetting s = first(c.text);
        std::string got = std::string(c.text).substr(s.at, s.end - s.at);
        cr_expect(got == c.value, "%s: «%s»", c.text, got.c_str());
    }
    std::string line = "NodeName=cn1 Reason=\"a b\" # comment\n";
    cr_expect(line.substr(parse_conf(line)[0].tail) == " # comment\n");
}

Test(conf, compares_keys_without_case)
{
    auto entries = parse_conf("NODENAME=a gres=x\n");
    cr_expect(entries[0].find("Gres") && entries[0].find("NodeName") && !entries[0].find("CPUs"));
    cr_expect(same_key("a", "A") && !same_key("a", "ab") && !same_key("[", "{"));
}

Test(conf, writes_what_it_reads)
{
    for (std::string value : {"plain", "a#b", "a\\b", "\\#", "a\\"})
        cr_expect(first("K=" + conf_escaped(value) + " ").value == value, "%s", value.c_str());
}

Test(conf, knows_includes)
{
    expect("Include  a.conf  \nINCLUDE\tb\nIncluded=1\n", "include a.conf; include b; Included=1");
    expect("include\ninclude \n", "");
    // Slurm takes it at the beginning of a line only.
    expect(" include a\n", "");
}

// Whatever the bytes are: nothing is read beyond them, and all places are in order.
Test(conf, survives_any_bytes)
{
    std::mt19937 engine(20261122);
    const std::string likely = "=\\\"# \n\r\t,aK1_.+\0[]include";
    for (int round = 0; round < 20000; ++round) {
        std::string text;
        for (size_t n = engine() % 80; n > 0; --n)
            text += engine() % 8 ? likely[engine() % likely.size()] : static_cast<char>(engine());
        size_t before = 0;
        for (const ConfEntry &entry : parse_conf(text)) {
            cr_assert(entry.at >= before && entry.end > entry.at && entry.end <= text.size() &&
                      entry.tail >= entry.at && entry.tail <= entry.end && entry.line > 0);
            before = entry.end;
            size_t last = entry.at;
            for (const ConfSetting &s : entry.settings) {
                cr_assert(!s.key.empty() && s.at >= last && s.end >= s.at && s.end <= entry.tail);
                cr_assert(s.end - s.at >= s.value.size());
                last = s.end;
            }
            cr_assert(entry.settings.empty() != entry.include.empty());
        }
        (void)ends_open(text);
    }
}

// --- files

struct Folder {
    std::string path;
    Folder()
    {
        char name[] = "/tmp/rgpu-slurm-conf.XXXXXX";
        path = mkdtemp(name);
    }
    ~Folder() { (void)!system(("rm -r " + path).c_str()); }
    std::string write(const std::string &name, const std::string &text)
    {
        std::ofstream(path + "/" + name, std::ios::binary) << text;
        return path + "/" + name;
    }
};

Test(conf, reads_what_files_include)
{
    Folder folder;
    folder.write("nodes-big.conf", "NodeName=a\nGresTypes=later\n");
    std::string main = folder.write(
        "slurm.conf", "ClusterName=BIG\nGresTypes=first\ninclude nodes-%c.conf\nNodeName=b\n");
    auto conf = read_conf(main);
    cr_assert(conf, "%s", conf.error().text.c_str());
    cr_expect_eq(conf->files.size(), 2);
    cr_expect(conf->value("gresTYPES") == "later");
    cr_expect(conf->last("GresTypes")->file == 1);
    cr_expect(conf->value("NodeName") == "b");
    cr_expect(!conf->value("Licenses"));
    std::string absolute =
        folder.write("absolute.conf", "include " + folder.path + "/nodes-big.conf\n");
    cr_expect(read_conf(absolute)->value("NodeName") == "a");
}

Test(conf, takes_a_file_once_that_is_named_twice)
{
    Folder folder;
    folder.write("a.conf", "NodeName=a\n");
    (void)!symlink("a.conf", (folder.path + "/b.conf").c_str());
    auto conf = read_conf(folder.write("slurm.conf", "include a.conf\ninclude b.conf\n"));
    cr_assert(conf);
    cr_expect_eq(conf->files.size(), 2);
    cr_expect_eq(conf->entries.size(), 2);
}

Test(conf, says_which_include_is_wrong)
{
    Folder folder;
    auto missing = read_conf(folder.write("slurm.conf", "A=1\ninclude none.conf\n"));
    cr_assert(!missing);
    cr_expect(missing.error().text.find("slurm.conf:2: ") != std::string::npos, "%s",
              missing.error().text.c_str());
    cr_expect(missing.error().text.find("none.conf: No such file") != std::string::npos);
    auto circle = read_conf(folder.write("circle.conf", "include circle.conf\n"));
    cr_assert(!circle);
    cr_expect(circle.error().text.find("without end") != std::string::npos);
    cr_expect(!read_conf(folder.write("dir.conf", "include /\n")));
    auto none = read_conf(folder.path + "/none.conf");
    cr_assert(none);
    cr_expect(!none->files[0].exists && none->entries.empty());
}
