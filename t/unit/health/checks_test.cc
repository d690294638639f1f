// SPDX-License-Identifier: Apache-2.0
// The checks on made-up hosts: files below a root directory, readings as NVML gives them, limits
// moved.
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>

#include <criterion/criterion.h>

#include "health/check.h"

using namespace rgpu;
using namespace rgpu::health;

// A host below a directory of its own.
struct Made {
    Host host;
    Made()
    {
        char path[] = "/tmp/rgpu-health.XXXXXX";
        cr_assert(mkdtemp(path));
        host.root = path;
    }
    ~Made() { std::filesystem::remove_all(host.root); }

    void file(const std::string &path, const std::string &text) const
    {
        std::filesystem::create_directories(std::filesystem::path(host.root + path).parent_path());
        std::ofstream(host.root + path) << text << "\n";
    }
    // A GPU that is lent, and well.
    GpuReading &gpu()
    {
        GpuReading reading;
        reading.index = static_cast<int>(host.gpus.size());
        reading.uuid = "GPU-" + std::to_string(reading.index);
        reading.pci = "00000000:" + std::to_string(3 + reading.index) + "B:00.0";
        reading.temperature = 50;
        reading.compute_mode = 0;
        reading.persistence = 1;
        reading.ecc_uncorrected = reading.remap_pending = reading.remap_failed = 0;
        host.server = true;
        host.gpus.push_back({reading.index, reading.uuid, reading.pci});
        host.readings.gpus.push_back(reading);
        return host.readings.gpus.back();
    }
};

static Verdict worst(const Findings &findings)
{
    Verdict verdict = Verdict::pass;
    for (const Finding &f : findings) {
        verdict = std::max(verdict, f.verdict);
        // Whoever is told that something is wrong is told what to do.
        cr_assert(f.verdict < Verdict::marginal ||
                      (!f.cure.empty() && !f.value.empty() && !f.limit.empty()),
                  "%s", f.value.c_str());
        cr_assert(f.verdict != Verdict::skipped || !f.value.empty());
    }
    cr_assert_not(findings.empty());
    return verdict;
}

#define says(findings, wanted) \
    do { \
        Findings told = (findings); \
        Verdict verdict = worst(told); \
        cr_assert_eq(verdict, (wanted), "%s, and should be %s: %s", pool::name(verdict), \
                     pool::name(wanted), told[0].value.c_str()); \
    } while (0)

static const char *limits(const char *files, const char *locked)
{
    static char text[512];
    snprintf(text, sizeof text,
             "Limit                     Soft Limit           Hard Limit           Units     \n"
             "Max open files            %-20s 1048576              files     \n"
             "Max locked memory         %-20s unlimited            bytes     ",
             files, locked);
    return text;
}

Test(health, the_table_names_each_check_once)
{
    std::set<std::string> names;
    for (const Check &check : checks())
        cr_assert(names.insert(check.name).second, "%s", check.name);
    cr_assert_geq(names.size(), size_t{20});
}

Test(health, a_host_of_which_nothing_can_be_read_passes_nothing_of_it)
{
    Made made;
    for (auto look : {open_files, locked_memory, memory, mtu, link_speed, network_errors})
        says(look(made.host), Verdict::skipped);
}

Test(health, descriptors_and_locked_memory)
{
    Made made;
    made.file("/proc/self/limits", limits("65536", "unlimited"));
    says(open_files(made.host), Verdict::pass);
    says(locked_memory(made.host), Verdict::pass);
    made.file("/proc/self/limits", limits("1000", "8388608"));
    says(open_files(made.host), Verdict::marginal);
    says(locked_memory(made.host), Verdict::marginal);
    cr_assert_eq(locked_memory(made.host)[0].value, "8 MiB");
    made.file("/proc/self/limits", limits("64", "0"));
    says(open_files(made.host), Verdict::fatal);
}

Test(health, memory_that_is_left)
{
    Made made;
    made.file("/proc/meminfo",
              "MemTotal:       16303428 kB\nMemFree:          100 kB\nMemAvailable:   8303428 kB");
    says(memory(made.host), Verdict::pass);
    made.file("/proc/meminfo", "MemTotal:       16303428 kB\nMemAvailable:   10240 kB");
    says(memory(made.host), Verdict::marginal);
}

Test(health, room_in_shared_memory_and_on_the_disk)
{
    Made made;
    made.host.state_dir = "/var/lib/rgpu";
    says(shared_memory(made.host), Verdict::marginal);
    says(disk(made.host), Verdict::fatal);
    std::filesystem::create_directories(made.host.root + "/dev/shm");
    std::filesystem::create_directories(made.host.root + "/var/lib/rgpu");
    made.host.limits.shared_memory = made.host.limits.disk = made.host.limits.least_disk = 1;
    made.host.limits.disk_files = made.host.limits.fewest_disk_files = 1;
    says(shared_memory(made.host), Verdict::pass);
    says(disk(made.host), Verdict::pass);
    made.host.limits.shared_memory = made.host.limits.disk = UINT64_MAX;
    says(shared_memory(made.host), Verdict::marginal);
    says(disk(made.host), Verdict::marginal);
    made.host.limits.least_disk = UINT64_MAX;
    says(disk(made.host), Verdict::fatal);
}

Test(health, files_of_our_own)
{
    Made made;
    made.host.interposer_dir = "/usr/lib/rgpu";
    made.host.library_path = {"/cuda/lib64"};
    says(libraries(made.host), Verdict::fatal);
    made.file("/usr/lib/rgpu/libcuda.so.1", "");
    says(libraries(made.host), Verdict::marginal);
    made.file("/cuda/lib64/libcudart.so", "");
    says(libraries(made.host), Verdict::pass);
    made.host.server = true;
    made.host.worker = "/usr/libexec/rgpu-worker";
    says(libraries(made.host), Verdict::fatal);
    made.file(made.host.worker, "");
    chmod((made.host.root + made.host.worker).c_str(), 0755);
    says(libraries(made.host), Verdict::pass);
}

static void interface(const Made &made, const std::string &name, int mtu, int speed, int bad,
                      int packets, bool hardware = true)
{
    std::string folder = "/sys/class/net/" + name + "/";
    made.file(folder + "operstate", name == "lo" ? "unknown" : "up");
    made.file(folder + "mtu", std::to_string(mtu));
    made.file(folder + "speed", std::to_string(speed));
    made.file(folder + "statistics/rx_errors", "0");
    made.file(folder + "statistics/rx_dropped", std::to_string(bad));
    made.file(folder + "statistics/rx_packets", std::to_string(packets));
    if (hardware) made.file(folder + "device/uevent", "DRIVER=mlx5_core");
}

Test(health, network_interfaces)
{
    Made made;
    interface(made, "lo", 65536, 0, 0, 0, false);
    interface(made, "docker0", 1400, 10, 99999, 200000, false);
    interface(made, "eth0", 9000, 100000, 3, 10000000);
    for (auto look : {mtu, link_speed, network_errors}) {
        Findings found = look(made.host);
        cr_assert_eq(found.size(), size_t{1},
                     "what has no hardware is not looked at beside what has");
        cr_assert_eq(found[0].of, "eth0");
        says(found, Verdict::pass);
    }
    interface(made, "eth0", 1500, 100000, 1000, 10000000);
    says(mtu(made.host), Verdict::marginal);
    says(network_errors(made.host), Verdict::marginal);
    interface(made, "eth0", 1500, 1000, 1000, 2000);
    says(mtu(made.host), Verdict::pass);
    says(link_speed(made.host), Verdict::marginal);
    says(network_errors(made.host), Verdict::pass);
    interface(made, "eth0", 1400, -1, 0, 0);
    says(mtu(made.host), Verdict::marginal);
    says(link_speed(made.host), Verdict::skipped);
}

Test(health, without_nvml_gpu_checks_are_skipped_with_the_reason)
{
    Made made;
    made.gpu();
    made.host.readings = {};
    made.host.readings.why_not = "NVML cannot be opened: libnvidia-ml.so.1: no such file";
    made.file("/proc/driver/nvidia/version",
              "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.65.06  Sun Jul 27 2025");
    for (auto look : {driver, gpu_count, pcie_width, pcie_generation, ecc, temperature,
                      compute_mode, persistence, p2p}) {
        Findings found = look(made.host);
        says(found, Verdict::skipped);
        cr_assert_eq(found.size(), size_t{1});
        cr_assert_eq(found[0].value, made.host.readings.why_not);
    }
}

Test(health, an_nvml_that_does_not_start_is_fatal_once)
{
    Made made;
    made.gpu();
    made.host.readings = {};
    made.host.readings.why_not = "NVML does not start: Driver/library version mismatch";
    made.host.readings.broken = true;
    says(driver(made.host), Verdict::fatal);
    for (auto look : {gpu_count, ecc, temperature, p2p}) says(look(made.host), Verdict::skipped);
    cr_assert(parse_readings("{\"why_not\": \"x\", \"broken\": 1}")->broken);
}

Test(health, host_memory_against_the_gpus)
{
    Made made;
    says(host_memory(made.host), Verdict::skipped);
    made.gpu();
    made.host.gpus[0].memory = uint64_t{8} << 30;
    says(host_memory(made.host), Verdict::skipped);
    made.file("/proc/meminfo", "MemTotal:       16303428 kB");
    says(host_memory(made.host), Verdict::pass);
    made.gpu();
    made.host.gpus[1].memory = uint64_t{80} << 30;
    says(host_memory(made.host), Verdict::marginal);
    cr_assert_eq(host_memory(made.host)[0].limit, "at least 88 GiB, as the GPUs have");
    made.host.software = true;
    says(host_memory(made.host), Verdict::skipped);
}

Test(health, the_least_release_of_the_driver)
{
    Made made;
    made.gpu();
    says(driver_release(made.host), Verdict::skipped);
    made.host.readings.driver = "580.65.06";
    says(driver_release(made.host), Verdict::pass);
    made.host.readings.driver = "535.104.5";
    says(driver_release(made.host), Verdict::marginal);
    made.host.readings.driver = "470.256.02";
    says(driver_release(made.host), Verdict::fatal);
}

Test(health, what_only_informs)
{
    Made made;
    made.gpu();
    says(stream_memory_operations(made.host), Verdict::skipped);
    says(host_pointers(made.host), Verdict::skipped);
    says(settings(made.host), Verdict::skipped);
    made.host.gpus[0].stream_memory_ops = 1;
    made.host.gpus[0].host_pointers = 0;
    made.host.settings = "encrypt off";
    says(stream_memory_operations(made.host), Verdict::info);
    says(host_pointers(made.host), Verdict::info);
    says(settings(made.host), Verdict::info);
    cr_assert(host_pointers(made.host)[0].value.starts_with("pinned memory has another address"));
    says(users_libraries(made.host), Verdict::info);
    cr_assert_eq(users_libraries(made.host)[0].value, "not on this server");
    made.file("/usr/lib/x86_64-linux-gnu/libnccl.so.2", "");
    cr_assert_eq(users_libraries(made.host)[0].value, "/usr/lib/x86_64-linux-gnu/libnccl.so.2");
}

Test(health, the_driver_that_rgpu_conf_asks_for)
{
    Made made;
    auto verdict = [&](const char *driver) {
        return worst({configured_driver(made.host, driver)});
    };
    cr_assert_eq(verdict("softgpu"), Verdict::info);
    cr_assert_eq(verdict("auto"), Verdict::info);
    cr_assert_eq(verdict("nvidia"), Verdict::fatal, "there is none of NVIDIA's");
    made.file("/sys/bus/pci/devices/0000:3b:00.0/vendor", "0x10de");
    made.file("/sys/bus/pci/devices/0000:3b:00.0/class", "0x030200");
    cr_assert_eq(verdict("auto"), Verdict::fatal, "no software GPUs in the place of a broken one");
    cr_assert_eq(verdict("nvidia"), Verdict::fatal);
    made.file("/proc/driver/nvidia/version",
              "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.65.06  Sun Jul 27 2025");
    cr_assert_eq(verdict("nvidia"), Verdict::pass);
}

Test(health, driver_and_cuda_versions_against_each_other)
{
    Made made;
    made.gpu();
    made.host.cuda = made.host.readings.cuda = 13000;
    made.host.readings.driver = "580.65.06";
    says(driver(made.host), Verdict::skipped);
    made.file("/proc/driver/nvidia/version",
              "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.65.06  Sun Jul 27 07:21:04 UTC "
              "2025\nGCC version:  gcc version 12.2.0");
    says(driver(made.host), Verdict::pass);
    made.file("/proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX Open Kernel Module for "
                                             "x86_64  575.51.03  Release Build  (root@x)");
    says(driver(made.host), Verdict::fatal);
    says(cuda(made.host), Verdict::pass);
    made.host.readings.cuda = 12080;
    says(cuda(made.host), Verdict::marginal);
    made.host.cuda = 12020;
    says(cuda(made.host), Verdict::marginal);
    made.host.cuda = 0;
    says(cuda(made.host), Verdict::skipped);
}

Test(health, a_gpu_that_has_gone)
{
    Made made;
    made.gpu();
    made.gpu();
    says(gpu_count(made.host), Verdict::pass);
    made.host.readings.gpus.erase(made.host.readings.gpus.begin());
    says(gpu_count(made.host), Verdict::fatal);
    cr_assert_eq(gpu_count(made.host)[0].value, "GPU 0 does not answer");
    says(temperature(made.host), Verdict::pass);
}

Test(health, the_pcie_link)
{
    Made made;
    made.gpu();
    says(pcie_width(made.host), Verdict::skipped);
    auto link = [&](const char *width, const char *speed) {
        made.file("/sys/bus/pci/devices/0000:3b:00.0/current_link_width", width);
        made.file("/sys/bus/pci/devices/0000:3b:00.0/max_link_width", "16");
        made.file("/sys/bus/pci/devices/0000:3b:00.0/current_link_speed", speed);
        made.file("/sys/bus/pci/devices/0000:3b:00.0/max_link_speed", "32.0 GT/s PCIe");
    };
    link("16", "32.0 GT/s PCIe");
    says(pcie_width(made.host), Verdict::pass);
    says(pcie_generation(made.host), Verdict::pass);
    link("8", "16.0 GT/s PCIe");
    says(pcie_width(made.host), Verdict::marginal);
    cr_assert_eq(pcie_width(made.host)[0].value, "8 lanes");
    says(pcie_generation(made.host), Verdict::marginal);
    link("16", "2.5 GT/s PCIe");
    says(pcie_generation(made.host), Verdict::skipped);
}

Test(health, ecc_errors)
{
    Made made;
    GpuReading &gpu = made.gpu();
    says(ecc(made.host), Verdict::pass);
    gpu.ecc_uncorrected = 2;
    says(ecc(made.host), Verdict::marginal);
    gpu.remap_pending = 1;
    says(ecc(made.host), Verdict::marginal);
    gpu.remap_failed = 1;
    says(ecc(made.host), Verdict::fatal);
    gpu.remap_pending = gpu.remap_failed = 0;
    gpu.ecc_uncorrected = -1;
    says(ecc(made.host), Verdict::skipped);
}

Test(health, xid_errors_by_number_and_age)
{
    Made made;
    made.gpu();
    made.file("/proc/uptime", "10000.00 20000.00");
    says(xid(made.host), Verdict::skipped);
    made.file("/dev/kmsg", "6,1,100,-;Linux version 6.1\n4,2,200,-;usb 1-1: new device");
    says(xid(made.host), Verdict::pass);
    made.file("/dev/kmsg",
              "4,2,9000000000,-;NVRM: Xid (PCI:0000:3b:00): 31, pid=77, name=python3, MMU Fault");
    says(xid(made.host), Verdict::marginal);
    made.file(
        "/dev/kmsg",
        "4,2,9000000000,-;NVRM: Xid (PCI:0000:3b:00): 79, pid=77, GPU has fallen off the bus.\n"
        "4,3,9500000000,-;NVRM: Xid (PCI:0000:3b:00): 31, pid=77, name=python3, MMU Fault");
    says(xid(made.host), Verdict::fatal);
    made.host.software = true;
    says(xid(made.host), Verdict::skipped);
    made.host.software = false;
    cr_assert(xid(made.host)[0].value.starts_with("Xid 79"), "%s", xid(made.host)[0].value.c_str());
    made.file(
        "/dev/kmsg",
        "4,2,5000000000,-;NVRM: Xid (PCI:0000:3b:00): 79, pid=77, GPU has fallen off the bus.");
    says(xid(made.host), Verdict::marginal);
}

Test(health, temperature_against_the_gpus_own_limits)
{
    Made made;
    GpuReading &gpu = made.gpu();
    says(temperature(made.host), Verdict::pass);
    gpu.temperature = 86;
    says(temperature(made.host), Verdict::marginal);
    gpu.slowdown = 92;
    gpu.shutdown = 97;
    says(temperature(made.host), Verdict::pass);
    gpu.temperature = 90;
    says(temperature(made.host), Verdict::marginal);
    gpu.temperature = 97;
    says(temperature(made.host), Verdict::fatal);
    gpu.temperature = -1;
    says(temperature(made.host), Verdict::skipped);
}

Test(health, modes)
{
    Made made;
    GpuReading &gpu = made.gpu();
    says(compute_mode(made.host), Verdict::pass);
    says(persistence(made.host), Verdict::pass);
    gpu.compute_mode = 3;
    gpu.persistence = 0;
    says(compute_mode(made.host), Verdict::marginal);
    says(persistence(made.host), Verdict::marginal);
    gpu.compute_mode = 2;
    says(compute_mode(made.host), Verdict::fatal);
    gpu.compute_mode = gpu.persistence = -1;
    says(compute_mode(made.host), Verdict::skipped);
    says(persistence(made.host), Verdict::skipped);
}

Test(health, p2p_between_all_pairs)
{
    Made made;
    made.gpu().p2p = {0, 0};
    says(p2p(made.host), Verdict::skipped);
    made.gpu();
    made.host.readings.gpus[1].p2p = {0, 0};
    says(p2p(made.host), Verdict::pass);
    made.host.readings.gpus[0].p2p = {0, 1};
    says(p2p(made.host), Verdict::marginal);
    cr_assert_eq(p2p(made.host)[0].value, "not between 0-1");
}

Test(health, examine_names_what_each_check_found)
{
    Made made;
    made.gpu().compute_mode = 2;
    Findings all = examine(made.host);
    auto found = std::find_if(all.begin(), all.end(),
                              [](const Finding &f) { return f.check == "compute mode"; });
    cr_assert(found != all.end());
    cr_assert_eq(found->of, "GPU 0");
    cr_assert_eq(found->verdict, Verdict::fatal);
    made.host.server = false;
    for (const Finding &f : examine(made.host))
        cr_assert_neq(f.check, "compute mode", "a client has no GPUs to look at");
}

Test(health, readings_that_are_none_are_refused)
{
    cr_assert_not(parse_readings("rgpu-worker: no driver"));
    cr_assert_not(parse_readings("[]"));
    auto why = parse_readings("{\"why_not\": \"no NVML\"}");
    cr_assert_eq(why->why_not, "no NVML");
    auto none = parse_readings("{\"gpus\": []}");
    cr_assert_eq(none->why_not, "NVML finds no GPU");
    auto odd = parse_readings(
        "{\"gpus\": [3, {\"index\": \"x\", \"temperature\": null, \"p2p\": [\"a\"]}]}");
    cr_assert_eq(odd->gpus.size(), size_t{2});
    cr_assert_eq(odd->gpus[1].temperature, -1);
    auto one = parse_readings("{\"driver\": \"580.65.06\", \"cuda\": 13000, \"gpus\": [{\"index\": "
                              "0, \"uuid\": \"GPU-x\", "
                              "\"temperature\": 41, \"nvlink\": [0, 1]}]}");
    cr_assert_eq(one->cuda, 13000);
    cr_assert_eq(one->gpus[0].temperature, 41);
    cr_assert_eq(one->gpus[0].nvlink, (std::vector<int>{0, 1}));
}
