// SPDX-License-Identifier: Apache-2.0
// Checks of a server's GPUs: NVML's readings, the PCI bus by /sys, the kernel's log. Where NVML is
// not there they are SKIPPED.
#include <algorithm>
#include <cctype>
#include <map>
#include <sstream>

#include "health/check.h"
#include "util/driver_release.h"
#include "util/nvidia_host.h"

namespace rgpu::health {
namespace {

std::string named(int index) { return "GPU " + std::to_string(index); }

// What look(reading) finds of each GPU that is lent.
template <class Look> Findings each(const Host &host, Look look)
{
    if (!host.readings.why_not.empty()) return {skipped("", host.readings.why_not)};
    Findings all;
    for (const Host::Gpu &gpu : host.gpus)
        for (const GpuReading &reading : host.readings.gpus)
            if (reading.uuid == gpu.uuid) all.push_back(look(named(gpu.index), reading));
    if (all.empty()) all.push_back(skipped("", "NVML knows none of the GPUs that are lent"));
    return all;
}

// /sys writes PCI addresses with four digits of domain and in small letters: NVML's
// 00000000:3B:00.0 is 0000:3b:00.0.
std::string pci_folder(std::string pci)
{
    std::transform(pci.begin(), pci.end(), pci.begin(),
                   [](unsigned char c) { return static_cast<char>(tolower(c)); });
    size_t colon = pci.find(':');
    if (colon != pci.npos && colon > 4) pci.erase(0, colon - 4);
    return "/sys/bus/pci/devices/" + pci + "/";
}

std::string release_of_module(const Host &host)
{
    // "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.65.06  Sun Jul 27 ...": the first word
    // of digits and dots.
    std::istringstream words(text_of(host, "/proc/driver/nvidia/version"));
    for (std::string word; words >> word;)
        if (word.find('.') != word.npos && word.find_first_not_of("0123456789.") == word.npos)
            return word;
    return "";
}

std::string version_text(int cuda)
{
    return std::to_string(cuda / 1000) + "." + std::to_string(cuda % 1000 / 10);
}

}  // namespace

Findings driver(const Host &host)
{
    if (host.readings.broken)
        return {
            fatal("", host.readings.why_not, "NVML starts",
                  "nvidia-smi and dmesg say why; after an update of the driver restart the host")};
    if (!host.readings.why_not.empty()) return {skipped("", host.readings.why_not)};
    std::string module = release_of_module(host);
    if (module.empty()) return {skipped("", "/proc/driver/nvidia/version tells no release")};
    if (module == host.readings.driver)
        return {pass("", module, "kernel module and libraries are of one release")};
    return {fatal("", "kernel module " + module + ", libraries " + host.readings.driver,
                  "they are of one release",
                  "restart the host: the driver was updated and the old module is still loaded")};
}

Finding configured_driver(const Host &host, const std::string &driver)
{
    const bool nvidia = driver == "nvidia" || driver == "auto";
    const std::string sign = nvidia ? nvidia_sign(host.root) : "", module = release_of_module(host);
    Finding out;
    if (!nvidia)
        out = info("", driver == "softgpu" ? "software GPUs, as rgpu.conf asks for" : driver);
    else if (sign.empty() && driver == "auto")
        out = info("", "software GPUs, as this host has nothing of NVIDIA's");
    else if (sign.empty())
        out = fatal("", "this host has nothing of NVIDIA's", "it has a GPU of NVIDIA's",
                    "take it out of rgpu.conf's [[server]] lines, or ask for software GPUs with "
                    "driver = \"softgpu\" below [rgpud]");
    else if (module.empty())
        out = fatal("", sign + ", and its driver is not loaded", "the driver is loaded",
                    "install it and see modprobe nvidia, dmesg and nvidia-smi; then systemctl "
                    "restart rgpud");
    else
        out = pass("", module, "the driver is loaded");
    out.check = "driver of this host";
    return out;
}

Findings driver_release(const Host &host)
{
    const std::string &release = host.readings.driver;
    if (!host.readings.why_not.empty() || release.empty())
        return {skipped("", host.readings.why_not.empty() ? "NVML tells no release"
                                                          : host.readings.why_not)};
    const std::string wanted(host.limits.driver), least(host.limits.least_driver);
    const char *cure = "install a newer driver on this host, then restart rgpud";
    if (is_older_release(release, least)) return {fatal("", release, "at least " + least, cure)};
    if (is_older_release(release, wanted))
        return {marginal("", release, "at least " + wanted, cure)};
    return {pass("", release, "at least " + wanted)};
}

Findings cuda(const Host &host)
{
    std::string limit = "at least " + version_text(host.limits.cuda);
    if (!host.cuda) return {skipped("", "the driver tells no version")};
    if (host.cuda < host.limits.cuda)
        return {marginal(
            "", version_text(host.cuda), limit,
            "install a newer driver: programs of newer toolkits do not start with this one")};
    if (host.readings.why_not.empty() && host.readings.cuda && host.readings.cuda != host.cuda)
        return {marginal("",
                         "libcuda.so.1 " + version_text(host.cuda) + ", NVML " +
                             version_text(host.readings.cuda),
                         "they agree",
                         "restart rgpud; if it stays, another libcuda.so.1 (cuda-compat?) is found "
                         "before the driver's: ldconfig -p | grep libcuda")};
    return {pass("", version_text(host.cuda), limit)};
}

Findings gpu_count(const Host &host)
{
    if (!host.readings.why_not.empty()) return {skipped("", host.readings.why_not)};
    std::string lost;
    for (const Host::Gpu &gpu : host.gpus)
        if (std::none_of(host.readings.gpus.begin(), host.readings.gpus.end(),
                         [&](const GpuReading &r) { return r.uuid == gpu.uuid; }))
            lost += (lost.empty() ? "" : ", ") + named(gpu.index);
    if (lost.empty())
        return {pass("", std::to_string(host.gpus.size()), "all that were found at start answer")};
    return {fatal("", lost + " does not answer", "all that were found at start answer",
                  "look for Xid 79 in dmesg (fallen off the bus), reset it with nvidia-smi "
                  "--gpu-reset or restart the host, then restart rgpud")};
}

namespace {

// What the driver says of each GPU; nothing is wrong with one that cannot do it.
Findings ability(const Host &host, int Host::Gpu::*of, const char *yes, const char *no)
{
    Findings all;
    for (const Host::Gpu &gpu : host.gpus)
        all.push_back(gpu.*of < 0 ? skipped(named(gpu.index), "the driver does not tell")
                                  : info(named(gpu.index), gpu.*of ? yes : no));
    if (all.empty()) all.push_back(skipped("", "no GPU was found at start"));
    return all;
}

}  // namespace

Findings stream_memory_operations(const Host &host)
{
    return ability(host, &Host::Gpu::stream_memory_ops, "32 and 64 bits wide",
                   "32 bits wide: cuStreamWriteValue64 and cuStreamWaitValue64 fail");
}

Findings host_pointers(const Host &host)
{
    return ability(host, &Host::Gpu::host_pointers, "pinned memory has one address on host and GPU",
                   "pinned memory has another address on the GPU: programs must ask for it");
}

namespace {

// A pair of files of a GPU's PCI device, as it is and as it could be, held against each other.
template <class Number> Findings pci_pair(const Host &host, const char *now, const char *most,
                                          const char *unit, const char *cure, Number number)
{
    return each(host, [&](const std::string &name, const GpuReading &gpu) {
        std::string is = text_of(host, pci_folder(gpu.pci) + now),
                    could = text_of(host, pci_folder(gpu.pci) + most);
        if (number(is) <= 0 || number(could) <= 0)
            return skipped(name, "/sys tells nothing of " + gpu.pci);
        if (number(is) >= number(could)) return pass(name, is + unit, could + unit);
        return marginal(name, is + unit, could + unit, cure);
    });
}

}  // namespace

Findings pcie_width(const Host &host)
{
    return pci_pair(host, "current_link_width", "max_link_width", " lanes",
                    "seat the card again, or move it to a slot with all lanes; look at risers and "
                    "the BIOS's bifurcation",
                    [](const std::string &text) { return atof(text.c_str()); });
}

Findings pcie_generation(const Host &host)
{
    // An idle link goes down to 2.5 GT/s to save power: this is no fault, and nothing can be said
    // then.
    Findings all = pci_pair(host, "current_link_speed", "max_link_speed", "",
                            "look at risers and the BIOS's PCIe settings; nvidia-smi -q -d "
                            "PERFORMANCE says whether it saves power",
                            [](const std::string &text) { return atof(text.c_str()); });
    for (Finding &finding : all)
        if (finding.verdict == Verdict::marginal && finding.value.starts_with("2.5 "))
            finding =
                skipped(finding.of, finding.value + " while it idles; it can " + finding.limit);
    return all;
}

Findings ecc(const Host &host)
{
    return each(host, [](const std::string &name, const GpuReading &gpu) {
        const char *reset =
            "end the jobs there (rgpu drain), then nvidia-smi --gpu-reset or restart the host";
        if (gpu.remap_failed > 0)
            return fatal(name, "remapping a row failed", "none failed", "have the GPU replaced");
        if (gpu.remap_pending > 0)
            return marginal(name, "a row waits to be remapped", "none waits", reset);
        if (gpu.ecc_uncorrected < 0) return skipped(name, "ECC is off, or it has none");
        std::string value = std::to_string(gpu.ecc_uncorrected) + " uncorrected";
        return gpu.ecc_uncorrected ? marginal(name, value, "0", reset) : pass(name, value, "0");
    });
}

namespace {

// Xids after which a GPU is no use until it is reset, by NVIDIA's "XID Errors"
// (docs.nvidia.com/deploy/xid-errors): double bit error, row remapping failure, NVLink error,
// fallen off the bus, uncontained memory error, GSP timeout, GSP error.
bool is_broken(int xid)
{
    for (int known : {48, 64, 74, 79, 95, 119, 120})
        if (xid == known) return true;
    return false;
}

}  // namespace

Findings xid(const Host &host)
{
    if (host.software) return {skipped("", "its GPUs are software")};
    // /dev/kmsg: "priority,sequence,microseconds since boot,flags;NVRM: Xid (PCI:0000:3b:00): 79,
    // pid=..., ..."
    std::string log = text_of(host, "/dev/kmsg");
    if (log.empty()) return {skipped("", "/dev/kmsg cannot be read: only root reads it")};
    double uptime = atof(text_of(host, "/proc/uptime").c_str());
    std::istringstream lines(log);
    std::map<std::string, std::pair<int, double>>
        last;  // of each GPU: the last Xid and how many hours ago it was
    for (std::string line; std::getline(lines, line);) {
        size_t at = line.find("NVRM: Xid (PCI:"), comma = line.find("): ", at);
        if (at == line.npos || comma == line.npos) continue;
        size_t second = line.find(',', line.find(',') + 1);
        double hours = (uptime - atof(line.c_str() + second + 1) / 1e6) / 3600;
        int number = atoi(line.c_str() + comma + 3);
        std::string pci = line.substr(at + 15, comma - at - 15);
        // One that broke the GPU is not forgotten over a lesser one behind it.
        auto known = last.find(pci);
        if (known != last.end() && is_broken(known->second.first) && !is_broken(number)) continue;
        last[pci] = {number, hours};
    }
    if (last.empty()) return {pass("", "none in the kernel's log")};
    Findings all;
    for (const auto &[pci, xid] : last) {
        std::string value = "Xid " + std::to_string(xid.first) + ", " +
                            number_text(xid.second, " hours ago");
        std::string limit = "none that breaks a GPU within " +
                            number_text(host.limits.xid_hours, " h");
        const char *cure = "look it up at docs.nvidia.com/deploy/xid-errors; nvidia-smi "
                           "--gpu-reset or restart the host";
        all.push_back(is_broken(xid.first) && xid.second < host.limits.xid_hours
                          ? fatal(pci, value, limit, cure)
                          : marginal(pci, value, limit, cure));
    }
    return all;
}

Findings temperature(const Host &host)
{
    return each(host, [&](const std::string &name, const GpuReading &gpu) {
        if (gpu.temperature < 0) return skipped(name, "it tells no temperature");
        int hot = gpu.slowdown > 0 ? gpu.slowdown - host.limits.below_slowdown : host.limits.hot;
        int too_hot = gpu.shutdown > 0 ? gpu.shutdown : std::max(host.limits.too_hot, hot);
        Finding finding = pass(name, std::to_string(gpu.temperature) + " C",
                               "below " + std::to_string(hot) + " C");
        finding.verdict = gpu.temperature >= too_hot ? Verdict::fatal
                          : gpu.temperature >= hot   ? Verdict::marginal
                                                     : Verdict::pass;
        if (finding.verdict != Verdict::pass)
            finding.cure = "look at fans and air flow; nvidia-smi -q -d TEMPERATURE,PERFORMANCE "
                           "says whether it slows down";
        return finding;
    });
}

Findings compute_mode(const Host &host)
{
    return each(host, [](const std::string &name, const GpuReading &gpu) {
        const char *cure = "nvidia-smi -c DEFAULT";
        switch (gpu.compute_mode) {
        case 0: return pass(name, "DEFAULT", "DEFAULT");
        case 2: return fatal(name, "PROHIBITED", "DEFAULT", cure);
        case 3:
            return marginal(name, "EXCLUSIVE_PROCESS: one program at a time, no shares", "DEFAULT",
                            cure);
        default: return skipped(name, "it tells no compute mode");
        }
    });
}

Findings persistence(const Host &host)
{
    return each(host, [](const std::string &name, const GpuReading &gpu) {
        if (gpu.persistence < 0) return skipped(name, "it tells no persistence mode");
        return gpu.persistence
                   ? pass(name, "on", "on")
                   : marginal(name, "off: each first program waits for the driver to start", "on",
                              "systemctl enable --now nvidia-persistenced");
    });
}

Findings p2p(const Host &host)
{
    if (!host.readings.why_not.empty()) return {skipped("", host.readings.why_not)};
    if (host.gpus.size() < 2) return {skipped("", "there is one GPU")};
    std::string cut;
    for (size_t a = 0; a < host.readings.gpus.size(); ++a)
        for (size_t b = a + 1; b < host.readings.gpus[a].p2p.size(); ++b)
            if (host.readings.gpus[a].p2p[b] != 0)
                cut += (cut.empty() ? "" : ", ") + std::to_string(a) + "-" + std::to_string(b);
    if (cut.empty()) return {pass("", "every pair", "every pair")};
    return {marginal("", "not between " + cut, "every pair",
                     "nvidia-smi topo -p2p r says why; look at the BIOS's ACS and IOMMU settings. "
                     "Copies between them go through the host")};
}

}  // namespace rgpu::health
