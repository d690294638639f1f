// SPDX-License-Identifier: Apache-2.0
// The default table, and -L.
#include <cstdio>
#include <cstring>

#include "smi/facts.h"
#include "smi/views.h"
#include "util/format.h"

namespace rgpu::smi {
namespace {

constexpr const char *kFull =
    "+-----------------------------------------------------------------------------------------+\n";
constexpr const char *kParts =
    "+-----------------------------------------+------------------------+----------------------+\n";

std::string line(const std::string &text)
{
    char buffer[128];
    snprintf(buffer, sizeof buffer, "|%-89.89s|\n", text.c_str());
    return buffer;
}

std::string columns(const std::string &a, const std::string &b, const std::string &c)
{
    char buffer[128];
    snprintf(buffer, sizeof buffer, "|%-41.41s|%-24.24s|%-22.22s|\n", a.c_str(), b.c_str(),
             c.c_str());
    return buffer;
}

std::string or_none(const Value &value, const char *unit)
{
    return value ? *value + unit : std::string("N/A");
}

// Watts without their fraction.
std::string watts(const Value &value)
{
    return value ? value->substr(0, value->find('.')) + "W" : std::string("N/A");
}

std::string ecc(nvmlDevice_t d)
{
    const Value mode = bare("ecc.mode.current", d);
    if (!mode) return "N/A";
    return *mode == "Enabled" ? told("ecc.errors.uncorrected.volatile.total", d) : "Off";
}

std::string short_name(const std::string &name, size_t most)
{
    return name.size() <= most ? name : name.substr(0, most - 3) + "...";
}

std::string of_gpu(nvmlDevice_t d)
{
    const bool persistent = bare("persistence_mode", d) == Value("Enabled");
    const bool shown = bare("display_active", d) == Value("Enabled");
    const Value mig = bare("mig.mode.current", d);
    std::string compute = told("compute_mode", d);
    if (compute == "Exclusive_Process") compute = "E. Process";
    std::string rows =
        columns(format(" %3s  %-28s %4s  ", told("index", d).c_str(),
                       short_name(told("name", d), 28).c_str(), persistent ? "On" : "Off"),
                format("   %16s %3s ", told("pci.bus_id", d).c_str(), shown ? "On" : "Off"),
                format(" %20s ", ecc(d).c_str()));
    rows += columns(
        format(" %3s  %4s    %-3s%15s / %5s ", or_none(bare("fan.speed", d), "%").c_str(),
               or_none(bare("temperature.gpu", d), "C").c_str(), told("pstate", d).c_str(),
               watts(bare("power.draw", d)).c_str(),
               watts(bare("enforced.power.limit", d)).c_str()),
        format("%11s / %9s ", or_none(bare("memory.used", d), "MiB").c_str(),
               or_none(bare("memory.total", d), "MiB").c_str()),
        format("%8s %12s ", or_none(bare("utilization.gpu", d), "%").c_str(), compute.c_str()));
    return rows + columns("", "", format(" %20s ", mig ? mig->c_str() : "N/A")) + kParts;
}

std::string process_rows(const std::vector<nvmlDevice_t> &devices)
{
    std::string rows;
    for (nvmlDevice_t d : devices)
        for (const Process &p : processes(d))
            rows += line(format(" %4s   N/A  N/A %15u      C   %-38s %7s", told("index", d).c_str(),
                                p.pid, short_name(p.name, 38).c_str(),
                                or_none(p.memory, "MiB").c_str()));
    return rows.empty() ? line("  No running processes found") : rows;
}

}  // namespace

std::string table(const std::vector<nvmlDevice_t> &devices)
{
    const std::string driver = told("driver_version", devices[0]);
    std::string all = format("%-31s\n", date().c_str());
    all += kFull;
    all += line(format(" NVIDIA-SMI %-22s Driver Version: %-14s CUDA Version: %-8s", driver.c_str(),
                       driver.c_str(), cuda_version().c_str()));
    all += kParts;
    all += columns(" GPU  Name                 Persistence-M", " Bus-Id          Disp.A",
                   " Volatile Uncorr. ECC");
    all += columns(" Fan  Temp   Perf          Pwr:Usage/Cap", "           Memory-Usage",
                   " GPU-Util  Compute M.");
    all += columns("", "", "               MIG M.");
    all += "|=========================================+========================+"
           "======================|\n";
    for (nvmlDevice_t d : devices) all += of_gpu(d);
    all += std::string(91, ' ') + "\n" + kFull + line(" Processes:");
    all += line("  GPU   GI   CI              PID   Type   Process name                        GPU "
                "Memory");
    all += line("        ID   ID                                                               "
                "Usage");
    all += "|" + std::string(89, '=') + "|\n";
    return all + process_rows(devices) + kFull;
}

std::string list(const std::vector<nvmlDevice_t> &devices)
{
    std::string all;
    for (nvmlDevice_t d : devices)
        all += "GPU " + told("index", d) + ": " + told("name", d) + " (UUID: " + told("uuid", d) +
               ")\n";
    return all;
}

std::string versions()
{
    char nvml[96] = "N/A";
    if (ASK(nvmlSystemGetNVMLVersion, nvml, static_cast<unsigned>(sizeof nvml)))
        strcpy(nvml, "N/A");
    char driver[96] = "N/A";
    if (ASK(nvmlSystemGetDriverVersion, driver, static_cast<unsigned>(sizeof driver)))
        strcpy(driver, "N/A");
    return format("NVIDIA-SMI version  : %s (rgpu %s)\nNVML version        : %s\n"
                  "DRIVER version      : %s\nCUDA Version        : %s\n",
                  driver, RGPU_VERSION, nvml, driver, cuda_version().c_str());
}

}  // namespace rgpu::smi
