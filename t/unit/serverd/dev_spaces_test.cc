#include "serverd/rgpud/dev_spaces.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "serverd/rgpud/process.h"

using namespace rgpu;
using namespace rgpu::serverd;
using namespace std::chrono_literals;

namespace {

namespace fs = std::filesystem;

// A directory that children cover.
struct Place {
    std::string at;
    Place()
    {
        char name[] = "/tmp/rgpu-dev-spaces-XXXXXX";
        at = mkdtemp(name);
    }
    ~Place() { fs::remove_all(at); }
};

bool can_mount(const Place &place) { return geteuid() == 0 && try_own_dev(place.at).has_value(); }

Launch shell(const char *script, const OwnDev &dev)
{
    Launch launch;
    launch.command = {"/bin/sh", "-c", script};
    launch.environment = {{"PATH", "/usr/bin:/bin"}};
    launch.dev = dev;
    return launch;
}

std::string said(const char *script, const OwnDev &dev)
{
    auto text = output_of(shell(script, dev), 10s, 1000);
    cr_assert(text.has_value(), "%s", text ? "" : text.error().text.c_str());
    return *text;
}

const std::string kSpace = "readlink /proc/self/ns/mnt";

}  // namespace

Test(dev_spaces, the_next_one_with_the_same_files_enters_what_the_first_has_made)
{
    Place place;
    if (!can_mount(place))
        cr_skip("needs root, and a kernel that lets it mount");
    DevSpaces spaces;
    const OwnDev dev(place.at, {"null", "zero"});
    auto first = launch(shell("exec sleep 60", dev));
    cr_assert(first.has_value());
    const std::string made = fs::read_symlink("/proc/" + std::to_string(*first) + "/ns/mnt").string() + "\n";
    spaces.keep(dev, *first);
    kill(*first, SIGKILL);
    waitpid(*first, nullptr, 0);

    OwnDev second(place.at, {"null", "zero"}), other(place.at, {"null"});
    cr_expect_neq(said(kSpace.c_str(), second), made, "what nobody looked for was found");
    spaces.find(second), spaces.find(other);
    cr_expect_eq(said(kSpace.c_str(), second), made);
    cr_expect_eq(said("echo $(ls /dev); head -c 2 /dev/zero | od -An -tx1; pwd", second), "null zero\n 00 00\n/\n");
    cr_expect_neq(said(kSpace.c_str(), other), made);
    cr_expect_eq(said("echo $(ls /dev)", other), "null\n");
    cr_expect(fs::is_empty(place.at), "a mount is seen outside");
}

Test(dev_spaces, a_file_that_was_made_anew_is_another_one)
{
    const std::string name = "shm/rgpu-dev-spaces-" + std::to_string(getpid()), file = "/dev/" + name;
    std::ofstream(file).put('x');
    const std::string before = OwnDev("/at", {name}).files();
    cr_expect_eq(OwnDev("/at", {name}).files(), before);
    cr_expect_neq(OwnDev("/elsewhere", {name}).files(), before);
    std::ofstream(file + ".new").put('x');
    fs::rename(file + ".new", file);
    cr_expect_neq(OwnDev("/at", {name}).files(), before);
    fs::remove(file);
    cr_expect_eq(OwnDev().files(), "");
}
