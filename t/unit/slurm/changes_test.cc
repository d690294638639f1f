// SPDX-License-Identifier: Apache-2.0
// Changes to files: written, recorded, taken back.
#include <criterion/criterion.h>

#include <cstdlib>
#include <fstream>
#include <sys/stat.h>
#include <unistd.h>

#include "slurm/conf/changes.h"
#include "slurm/conf/conf.h"

using namespace rgpu;
using namespace rgpu::slurm;

struct Folder {
    std::string path;
    Folder()
    {
        char name[] = "/tmp/rgpu-slurm-changes.XXXXXX";
        path = mkdtemp(name);
    }
    ~Folder() { (void)!system(("chmod -R u+w " + path + "; rm -r " + path).c_str()); }
    std::string write(const std::string &name, const std::string &text) const
    {
        std::ofstream(path + "/" + name, std::ios::binary) << text;
        return path + "/" + name;
    }
};

// "b=2" became "b=3", and "c=4" was added.
static ChangedFile change()
{
    return {"slurm.conf",      "slurm.conf",           true,
            "a=1\nb=2\nz=9\n", "a=1\nb=3\nz=9\nc=4\n", {{4, 4, 4, 4}, {12, 0, 12, 4}}};
}

static void expect(const std::string &now, const std::string &wanted)
{
    auto got = taken_back(change(), now);
    cr_assert(got, "%s was refused: %s", now.c_str(), got.error().text.c_str());
    cr_expect(*got == wanted, "%s gave %s", now.c_str(), got->c_str());
}

Test(changes, takes_back_what_it_did) { expect("a=1\nb=3\nz=9\nc=4\n", "a=1\nb=2\nz=9\n"); }

Test(changes, keeps_what_was_edited_elsewhere)
{
    expect("new=1\na=1\nb=3\nc=4\nz=10\nlast=1", "new=1\na=1\nb=2\nz=10\nlast=1");
    // The end of a line is no line.
    expect("bb=3\nb=3\nc=4\nac=4\n", "bb=3\nb=2\nac=4\n");
}

Test(changes, refuses_where_its_lines_were_edited)
{
    for (const char *now : {"a=1\nb=4\nz=9\nc=4\n", "a=1\nb=3\nz=9\n", "b=3\nb=3\nc=4\n", "",
                            "a=1\nb=3 # mine\nc=4\n"}) {
        auto got = taken_back(change(), now);
        cr_assert(!got, "%s was taken", now);
        cr_expect(got.error().text.find("slurm.conf was edited since: the line \"") == 0, "%s",
                  got.error().text.c_str());
    }
    cr_expect(taken_back(change(), "b=3\nz=9\n")
                  .error()
                  .text.find("\"c=4\", which setup wrote, is not there any more") !=
              std::string::npos);
    cr_expect(taken_back(change(), "b=3\nb=3\nc=4\n")
                  .error()
                  .text.find("\"b=3\", which setup wrote, is not there just once") !=
              std::string::npos);
}

Test(changes, writes_with_the_old_owner_and_mode)
{
    Folder folder;
    std::string conf = folder.write("slurm.conf", "old\n");
    chmod(conf.c_str(), 0640);
    umask(077);
    auto done = write_files({{conf, "new\n"}, {folder.path + "/gres.conf", "made\n"}}, conf);
    cr_assert(done, "%s", done.error().text.c_str());
    struct stat status;
    stat(conf.c_str(), &status);
    cr_expect_eq(status.st_mode & 07777, 0640);
    stat((folder.path + "/gres.conf").c_str(), &status);
    cr_expect_eq(status.st_mode & 07777, 0644);
    cr_expect(*read_bytes(conf) == "new\n" && *read_bytes(folder.path + "/gres.conf") == "made\n");
    cr_assert(write_files({{folder.path + "/gres.conf", "", true}}, conf));
    cr_expect(!read_bytes(folder.path + "/gres.conf"));
}

Test(changes, writes_nothing_where_one_file_cannot_be_written)
{
    Folder folder;
    std::string conf = folder.write("slurm.conf", "old\n");
    auto done = write_files({{conf, "new\n"}, {folder.path + "/none/gres.conf", "made\n"}}, conf);
    cr_assert(!done);
    cr_expect(done.error().text.find("/none/gres.conf") != std::string::npos, "%s",
              done.error().text.c_str());
    cr_expect(*read_bytes(conf) == "old\n");
    // Nor is anything left behind.
    cr_expect_eq(system(("test $(ls " + folder.path + " | wc -l) = 1").c_str()), 0);
}

Test(changes, remembers_each_time)
{
    Folder folder;
    std::string record = folder.path + "/rgpu-setup";
    cr_expect(read_record(record)->empty());
    ChangedFile bytes = change();
    bytes.before += std::string("\xff\0\xe9", 3);
    bytes.existed = false;
    cr_assert(add_to_record(record, {change()}));
    cr_assert(add_to_record(record, {bytes, change()}));
    auto times = read_record(record);
    cr_assert(times, "%s", times.error().text.c_str());
    cr_assert_eq(times->size(), 2);
    const ChangedFile &got = (*times)[1][0];
    cr_expect(got.before == bytes.before && got.after == bytes.after && !got.existed &&
              got.path == "slurm.conf");
    cr_expect(got.hunks.size() == 2 && got.hunks[1].before_at == 12 &&
              got.hunks[1].after_size == 4);
    struct stat status;
    stat(record.c_str(), &status);
    cr_expect_eq(status.st_mode & 07777, 0700);
    cr_assert(remove_from_record(record, 1));
    cr_expect_eq(read_record(record)->size(), 1);
    cr_assert(remove_from_record(record, 0));
    cr_expect(access(record.c_str(), F_OK) != 0);
}

Test(changes, refuses_a_record_that_is_broken)
{
    Folder folder;
    std::string record = folder.path + "/rgpu-setup", index = "rgpu-setup/1/changes.json";
    cr_assert(add_to_record(record, {change()}));
    std::string good = *read_bytes(folder.path + "/" + index);
    for (const std::string &bad :
         {std::string("{"), std::string("[]"), std::string("{\"files\": 1}"),
          std::string("{\"files\": [{}]}"),
          good.substr(0, good.find("12")) + "9912" + good.substr(good.find("12") + 2)}) {
        folder.write(index, bad);
        cr_expect(!read_record(record), "%s", bad.c_str());
    }
    folder.write(index, good);
    cr_expect(read_record(record));
    unlink((record + "/1/0.after").c_str());
    cr_expect(!read_record(record));
}
