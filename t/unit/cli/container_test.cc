// SPDX-License-Identifier: Apache-2.0
#include "cli/parts/container_image.h"
#include "cli/parts/container_parts.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

#include <criterion/criterion.h>

using namespace rgpu;
using namespace rgpu::cli;
namespace fs = std::filesystem;
using namespace std::string_literals;

namespace {

// A root directory, an interposer's and a lease, in a directory that goes with it.
struct Host {
    fs::path top, rootfs, interposer, lease;

    Host()
    {
        char name[] = "/tmp/rgpu-container.XXXXXX";
        cr_assert(mkdtemp(name));
        top = name;
        rootfs = top / "bundle" / "rootfs";
        interposer = top / "interposer";
        lease = top / "lease.json";
        file(lease, "{}");
        file(interposer / "libcuda.so.1", "x\0GLIBC_2.34\0GLIBC_2.9\0"s);
        file(interposer / "libnvidia-ml.so.1", "x");
        fs::create_directories(rootfs);
    }
    ~Host() { fs::remove_all(top); }

    static void file(const fs::path &path, const std::string &text)
    {
        fs::create_directories(path.parent_path());
        std::ofstream(path, std::ios::binary) << text;
    }
    // An image of Debian's family, whose libc knows these versions.
    void debian(const std::string &versions = "GLIBC_2.2.5\0GLIBC_2.34\0GLIBC_2.36\0"s)
    {
        file(rootfs / "usr/lib/x86_64-linux-gnu/libc.so.6", versions);
        fs::create_directory_symlink("usr/lib", rootfs / "lib");
    }
    void link(const std::string &path, const std::string &to)
    {
        fs::create_directories((rootfs / path).parent_path());
        fs::create_symlink(to, rootfs / path);
    }
    nlohmann::ordered_json config(std::vector<std::string> environment) const
    {
        return {{"process", {{"env", environment}}},
                {"root", {{"path", "rootfs"}}},
                {"mounts", nlohmann::ordered_json::array()}};
    }
};

bool has_mount(const ContainerParts &parts, const std::string &source,
               const std::string &destination)
{
    for (const BindMount &mount : parts.mounts)
        if (mount.source == source && mount.destination == destination) return true;
    return false;
}

void same(const std::string &got, const std::string &wanted)
{
    cr_assert(got == wanted, "got '%s', wanted '%s'", got.c_str(), wanted.c_str());
}

std::string joined(const std::vector<std::string> &list)
{
    std::string text;
    for (const std::string &entry : list) text += (text.empty() ? "" : " ") + entry;
    return text;
}

Environment environment_of(const nlohmann::ordered_json &config)
{
    return config["process"]["env"].get<Environment>();
}

}  // namespace

Test(container, links_are_followed_inside_the_root_only)
{
    Host host;
    host.debian();
    host.link("abs", "/lib/x");
    host.link("up", "../../../../etc");
    host.link("loop", "loop");
    same(resolve_in(host.rootfs, "/lib/x86_64-linux-gnu/libc.so.6").value(),
         "/usr/lib/x86_64-linux-gnu/libc.so.6");
    same(resolve_in(host.rootfs, "/abs").value(), "/usr/lib/x");
    same(resolve_in(host.rootfs, "/up/passwd").value(), "/etc/passwd");
    same(resolve_in(host.rootfs, "//./usr/../..").value(), "/");
    same(resolve_in(host.rootfs, "/not/there").value(), "/not/there");
    cr_assert(!resolve_in(host.rootfs, "/loop"));
}

Test(container, a_library_goes_beside_the_image_s_libc)
{
    Host debian, redhat, static_only;
    debian.debian();
    redhat.file(redhat.rootfs / "usr/lib64/libc.so.6", "x");
    redhat.link("lib64", "usr/lib64");
    same(joined(places_for(debian.rootfs, "libcuda.so.1", "")),
         "/usr/lib/x86_64-linux-gnu/libcuda.so.1");
    same(joined(places_for(redhat.rootfs, "libcuda.so.1", "")), "/usr/lib64/libcuda.so.1");
    same(joined(places_for(static_only.rootfs, "libcuda.so.1", "")), "");
}

Test(container, what_the_image_has_of_that_name_is_covered)
{
    Host host;
    host.debian();
    host.file(host.rootfs / "usr/lib/x86_64-linux-gnu/libcuda.so.535", "x");
    host.link("usr/lib/x86_64-linux-gnu/libcuda.so.1", "libcuda.so.535");
    host.file(host.rootfs / "opt/driver/libcuda.so.1", "x");
    host.file(host.rootfs / "usr/local/cuda-12.4/compat/libcuda.so.550", "x");
    host.link("usr/local/cuda-12.4/compat/libcuda.so.1", "libcuda.so.550");
    host.link("usr/local/cuda", "cuda-12.4");
    host.file(host.rootfs / "srv/libcuda.so.1", "x");
    host.file(host.rootfs / "etc/ld.so.cache",
              "glibc-ld.so.cache1.1\0\1\2libcuda.so.1\0/opt/driver/libcuda.so.1\0"
              "/gone/libcuda.so.1\0/srv/xlibcuda.so.1\0"s);
    same(joined(places_for(host.rootfs, "libcuda.so.1", "/nowhere:/srv")),
         "/usr/lib/x86_64-linux-gnu/libcuda.so.535 /opt/driver/libcuda.so.1 "
         "/usr/local/cuda-12.4/compat/libcuda.so.550 "
         "/srv/libcuda.so.1");
}

Test(container, an_older_libc_is_told)
{
    Host now, old;
    now.debian();
    old.debian("GLIBC_2.2.5\0GLIBC_2.31\0"s);
    same(missing_glibc(now.rootfs, now.interposer / "libcuda.so.1"), "");
    same(missing_glibc(old.rootfs, old.interposer / "libcuda.so.1"), "2.34");
    auto parts = parts_for({old.rootfs, {}, {}}, old.lease, old.interposer);
    cr_assert(parts && parts->warnings.size() == 1 &&
              parts->warnings[0].find("glibc 2.34") != std::string::npos);
}

Test(container, lease_and_libraries_are_mounted_and_named)
{
    Host host;
    host.debian();
    host.file(host.interposer / "openssl/libssl.so.3", "x");
    auto parts =
        parts_for({host.rootfs, {"LD_LIBRARY_PATH=/a:/b", "NVIDIA_VISIBLE_DEVICES=all"}, {}},
                  host.lease, host.interposer);
    cr_assert(parts, "%s", parts.error().text.c_str());
    cr_assert(parts->warnings.empty(), "%s", joined(parts->warnings).c_str());
    same(parts->directory, "/run/rgpu");
    std::string cuda = host.interposer / "libcuda.so.1",
                nvml = host.interposer / "libnvidia-ml.so.1";
    cr_assert(has_mount(*parts, host.lease, "/run/rgpu/lease.json"));
    cr_assert(has_mount(*parts, cuda, "/run/rgpu/libcuda.so.1") &&
              has_mount(*parts, nvml, "/run/rgpu/libnvidia-ml.so.1"));
    cr_assert(has_mount(*parts, cuda, "/usr/lib/x86_64-linux-gnu/libcuda.so.1"));
    cr_assert(has_mount(*parts, nvml, "/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1"));
    cr_assert(has_mount(*parts, host.interposer / "openssl/libssl.so.3",
                        "/run/rgpu/openssl/libssl.so.3"));
    cr_assert_eq(parts->mounts.size(), 6);
    Environment environment;
    for (const auto &[name, value] : parts->environment) set_variable(environment, name, value);
    same(value_of(environment, "RGPU_LEASE"), "/run/rgpu/lease.json");
    same(value_of(environment, "RGPU_LEASE_OUTSIDE"), host.lease.c_str());
    same(value_of(environment, "LD_LIBRARY_PATH"), "/run/rgpu:/a:/b");
    same(value_of(environment, "NVIDIA_VISIBLE_DEVICES"), "void");
}

Test(container, software_gpus_bring_their_ptxas)
{
    Host host;
    host.debian();
    const std::string gpu = R"({"servers":[{"gpus":[{"uuid":"GPU-1","name":")", end = R"("}]}]})",
                      ptx = host.top / "ptx";
    host.file(host.lease, gpu + "rgpu software GPU" + end);
    host.file(ptx + "/bin/ptxas", "x");
    const Environment job = {"XLA_FLAGS=--a=1", "CUDA_ROOT=" + ptx,
                             "TRITON_PTXAS_PATH=/mine/ptxas"};
    auto none = parts_for({host.rootfs, job, {}}, host.lease, host.interposer);
    cr_assert(none && none->mounts.size() == 5);
    cr_assert_eq(chmod((ptx + "/bin/ptxas").c_str(), 0755), 0);
    auto parts = parts_for({host.rootfs, job, {}}, host.lease, host.interposer);
    cr_assert(parts, "%s", parts.error().text.c_str());
    cr_assert(has_mount(*parts, ptx + "/bin/ptxas", "/run/rgpu/ptx/bin/ptxas"));
    Environment environment = job;
    for (const auto &[name, value] : parts->environment) set_variable(environment, name, value);
    same(value_of(environment, "CUDA_ROOT"), "/run/rgpu/ptx");
    same(value_of(environment, "TRITON_PTXAS_PATH"), "/mine/ptxas");
    same(value_of(environment, "TRITON_PTXAS_BLACKWELL_PATH"), "/run/rgpu/ptx/bin/ptxas");
    const std::string flags = value_of(environment, "XLA_FLAGS");
    cr_assert(flags.starts_with("--a=1 --xla_gpu") &&
                  flags.ends_with("--xla_gpu_cuda_data_dir=/run/rgpu/ptx"),
              "%s", flags.c_str());
    host.file(host.lease, gpu + "NVIDIA H100" + end);
    auto real = parts_for({host.rootfs, {}, {}}, host.lease, host.interposer);
    cr_assert(real && real->mounts.size() == 5);
}

Test(container, without_a_lease_or_libcuda_it_fails)
{
    Host host;
    cr_assert(!parts_for({host.rootfs, {}, {}}, host.top / "none.json", host.interposer));
    fs::remove(host.interposer / "libcuda.so.1");
    auto parts = parts_for({host.rootfs, {}, {}}, host.lease, host.interposer);
    cr_assert(!parts && parts.error().text.find("interposer_dir") != std::string::npos);
}

Test(container, a_root_that_cannot_be_written_gets_all_into_a_tmpfs)
{
    if (geteuid() == 0) cr_assert_eq(setresuid(65534, 65534, 65534), 0);
    Host host;
    host.debian();
    for (const char *directory : {"", "usr", "usr/lib", "usr/lib/x86_64-linux-gnu"})
        cr_assert_eq(chmod((host.rootfs / directory).c_str(), 0555), 0);
    auto none = parts_for({host.rootfs, {}, {}}, host.lease, host.interposer);
    cr_assert(!none && none.error().text.find("make the directory /run/rgpu") != std::string::npos);
    auto parts = parts_for({host.rootfs, {}, {"/dev"}}, host.lease, host.interposer);
    for (const char *directory : {"", "usr", "usr/lib", "usr/lib/x86_64-linux-gnu"})
        cr_assert_eq(chmod((host.rootfs / directory).c_str(), 0755), 0);
    cr_assert(parts, "%s", parts.error().text.c_str());
    same(parts->directory, "/dev/rgpu");
    cr_assert_eq(parts->mounts.size(), 3);
    cr_assert(parts->warnings.size() == 1 &&
              parts->warnings[0].find("make an empty file of that name") != std::string::npos);
}

Test(container, a_bundle_gets_mounts_and_environment_once)
{
    Host host;
    host.debian();
    auto config =
        host.config({"PATH=/bin", "RGPU_LEASE=" + host.lease.string(), "LD_LIBRARY_PATH=/image"});
    SlurmConfig slurm;
    auto warnings = add_to_bundle(config, host.top / "bundle", {}, slurm, host.interposer);
    cr_assert(warnings && warnings->empty());
    auto &mounts = config["mounts"];
    cr_assert_eq(mounts.size(), 6);
    cr_assert(mounts[0]["type"] == "tmpfs" && mounts[0]["destination"] == "/run/rgpu");
    cr_assert(mounts[1]["source"] == host.lease.string() &&
              mounts[1]["destination"] == "/run/rgpu/lease.json");
    cr_assert(mounts[1]["options"] == nlohmann::json({"bind", "ro", "nosuid", "nodev"}));
    Environment environment = environment_of(config);
    cr_assert_eq(environment.size(), 4);
    same(value_of(environment, "RGPU_LEASE"), "/run/rgpu/lease.json");
    same(value_of(environment, "LD_LIBRARY_PATH"), "/run/rgpu:/image");
    auto once = config;
    cr_assert(add_to_bundle(config, host.top / "bundle", {}, slurm, host.interposer));
    cr_assert(config == once);
}

Test(container, a_bundle_gets_the_lease_and_the_gpus_of_who_asks)
{
    Host host;
    host.debian();
    // As Slurm writes them: what the image says, then what the job says.
    auto config =
        host.config({"LD_LIBRARY_PATH=/image", "LD_LIBRARY_PATH=/job", "CUDA_VISIBLE_DEVICES=0,1"});
    Environment own = {"RGPU_LEASE=" + host.lease.string(), "CUDA_VISIBLE_DEVICES=1"};
    cr_assert(add_to_bundle(config, host.top / "bundle", own, SlurmConfig{}, host.interposer));
    Environment environment = environment_of(config);
    cr_assert_eq(environment.size(), 4);
    same(value_of(environment, "CUDA_VISIBLE_DEVICES"), "1");
    same(value_of(environment, "LD_LIBRARY_PATH"), "/run/rgpu:/job");
}

Test(container, a_bundle_without_a_lease_stays_as_it_is)
{
    Host host;
    host.debian();
    auto config = host.config({"PATH=/bin", "SLURM_JOB_ID=17", "SLURMD_NODENAME=cn1"});
    auto before = config;
    SlurmConfig slurm;
    slurm.rundir = host.top / "run/%n";
    auto warnings =
        add_to_bundle(config, host.top / "bundle", {"SLURM_JOB_ID=17"}, slurm, host.interposer);
    cr_assert(warnings && warnings->empty());
    cr_assert(config == before);
    // The node's prolog has put one there: plugins that start containers may come before ours.
    host.file(host.top / "run/cn1/17/lease.json", "{}");
    cr_assert(add_to_bundle(config, host.top / "bundle", {}, slurm, host.interposer));
    cr_assert(config["mounts"][1]["source"] == (host.top / "run/cn1/17/lease.json").string());
}

Test(container, a_bundle_without_a_way_to_the_servers_is_told)
{
    Host host;
    auto config = host.config({"RGPU_LEASE=" + host.lease.string()});
    config["linux"]["namespaces"] = {{{"type", "pid"}}, {{"type", "network"}}};
    SlurmConfig slurm;
    auto with_path = config, with_hook = config;
    with_path["linux"]["namespaces"][1]["path"] = "/proc/1/ns/net";
    with_hook["hooks"] = {{"createRuntime", {{{"path", "/usr/bin/cni"}}}}};
    auto warnings = add_to_bundle(config, host.top / "bundle", {}, slurm, host.interposer);
    cr_assert(warnings && warnings->size() == 1 &&
              (*warnings)[0].find("network namespace") != std::string::npos);
    cr_assert(add_to_bundle(with_path, host.top / "bundle", {}, slurm, host.interposer)->empty());
    cr_assert(add_to_bundle(with_hook, host.top / "bundle", {}, slurm, host.interposer)->empty());
}

Test(container, what_is_no_configuration_is_refused)
{
    Host host;
    SlurmConfig slurm;
    for (auto wrong : {nlohmann::ordered_json::array(), nlohmann::ordered_json::object(),
                       nlohmann::ordered_json{{"root", {{"path", 1}}}}})
        cr_assert(!add_to_bundle(wrong, "/b", {}, slurm, host.interposer));
}

Test(container, a_space_is_written_as_fstab_has_it)
{
    ContainerParts parts;
    parts.directory = "/run/rgpu";
    parts.mounts = {{"/my run/l", "/run/rgpu/lease.json"}};
    same(as_fstab(parts),
         "tmpfs /run/rgpu tmpfs x-create=dir,nosuid,nodev,mode=0755,size=64k\n"
         "/my\\040run/l /run/rgpu/lease.json none x-create=file,bind,ro,nosuid,nodev,private\n");
}
