// SPDX-License-Identifier: Apache-2.0
#include "smi/facts.h"

#include <sys/time.h>

#include <algorithm>
#include <cstdio>
#include <ctime>

#include "util/format.h"

namespace rgpu::smi {
namespace {

using Device = nvmlDevice_t;

// By reference: the call that fills the value in and these are arguments of one call, in any order.
template <class T> Value number(nvmlReturn_t r, const T &value)
{
    return r ? Value() : Value(std::to_string(value));
}
Value mib(nvmlReturn_t r, const unsigned long long &bytes)
{
    return r ? Value() : Value(std::to_string(bytes >> 20));
}
Value watts(nvmlReturn_t r, const unsigned &milliwatts)
{
    return r ? Value() : Value(format("%u.%02u", milliwatts / 1000, milliwatts % 1000 / 10));
}
template <class T> Value enabled(nvmlReturn_t r, const T &on)
{
    return r ? Value() : Value(on ? "Enabled" : "Disabled");
}

// For functions of a device with one result, two of which one is told, and one by a kind.
#define TOLD(type, function, how) \
    [](Device d) { \
        type v{}; \
        return how(ASK(function, d, &v), v); \
    }
#define OF_TWO(type, function, how, which) \
    [](Device d) { \
        type first{}, second{}; \
        return how(ASK(function, d, &first, &second), which); \
    }
#define NUMBER(function) TOLD(unsigned, function, number)
#define WATTS(function) TOLD(unsigned, function, watts)
#define ENABLED(function) TOLD(nvmlEnableState_t, function, enabled)
#define FIRST_ENABLED(function) OF_TWO(nvmlEnableState_t, function, enabled, first)
#define SECOND_ENABLED(function) OF_TWO(nvmlEnableState_t, function, enabled, second)
#define FIRST_UNSIGNED(function, how) OF_TWO(unsigned, function, how, first)
#define SECOND_UNSIGNED(function, how) OF_TWO(unsigned, function, how, second)
#define TEXT(function) \
    [](Device d) { \
        char v[256] = ""; \
        return ASK(function, d, v, static_cast<unsigned>(sizeof v)) ? Value() : Value(v); \
    }
#define CLOCK(function, kind) \
    [](Device d) { \
        unsigned v = 0; \
        return number(ASK(function, d, kind, &v), v); \
    }
#define PCI(expression) \
    [](Device d) { \
        nvmlPciInfo_t pci{}; \
        return ASK(nvmlDeviceGetPciInfo_v3, d, &pci) ? Value() : Value(expression); \
    }
#define MEMORY(member) \
    [](Device d) { \
        nvmlMemory_t m{}; \
        return mib(ASK(nvmlDeviceGetMemoryInfo, d, &m), m.member); \
    }
#define BAR1(member) \
    [](Device d) { \
        nvmlBAR1Memory_t m{}; \
        return mib(ASK(nvmlDeviceGetBAR1MemoryInfo, d, &m), m.member); \
    }
#define BUSY(member) \
    [](Device d) { \
        nvmlUtilization_t u{}; \
        return number(ASK(nvmlDeviceGetUtilizationRates, d, &u), u.member); \
    }
#define ECC(kind, counter) \
    [](Device d) { \
        unsigned long long v = 0; \
        return number(ASK(nvmlDeviceGetTotalEccErrors, d, kind, counter, &v), v); \
    }
#define REASON(bit) \
    [](Device d) { \
        unsigned long long v = 0; \
        nvmlReturn_t r = ASK(nvmlDeviceGetCurrentClocksThrottleReasons, d, &v); \
        return r ? Value() : Value(v & (bit) ? "Active" : "Not Active"); \
    }
#define REASONS(function) \
    [](Device d) { \
        unsigned long long v = 0; \
        return ASK(function, d, &v) ? Value() : Value(format("0x%016llx", v)); \
    }

Value driver_version(Device)
{
    char v[96] = "";
    return ASK(nvmlSystemGetDriverVersion, v, static_cast<unsigned>(sizeof v)) ? Value() : Value(v);
}

Value count(Device)
{
    unsigned v = 0;
    return number(ASK(nvmlDeviceGetCount_v2, &v), v);
}

Value capability(Device d)
{
    int major = 0, minor = 0;
    return ASK(nvmlDeviceGetCudaComputeCapability, d, &major, &minor)
               ? Value()
               : Value(format("%d.%d", major, minor));
}

Value compute_mode(Device d)
{
    nvmlComputeMode_t v{};
    if (ASK(nvmlDeviceGetComputeMode, d, &v)) return {};
    switch (v) {
    case NVML_COMPUTEMODE_DEFAULT: return "Default";
    case NVML_COMPUTEMODE_PROHIBITED: return "Prohibited";
    default: return "Exclusive_Process";
    }
}

Value performance_state(Device d)
{
    nvmlPstates_t v{};
    return ASK(nvmlDeviceGetPerformanceState, d, &v) ? Value() : Value(format("P%d", v));
}

Value temperature(Device d)
{
    unsigned v = 0;
    return number(ASK(nvmlDeviceGetTemperature, d, NVML_TEMPERATURE_GPU, &v), v);
}

// The memory that neither programs nor the lease have: none, as the total is the lease's cap.
Value reserved(Device d)
{
    nvmlMemory_v2_t m{};
    m.version = nvmlMemory_v2;
    return mib(ASK(nvmlDeviceGetMemoryInfo_v2, d, &m), m.reserved);
}

Value architecture(Device d)
{
    nvmlDeviceArchitecture_t v{};
    if (ASK(nvmlDeviceGetArchitecture, d, &v)) return {};
    constexpr const char *kNames[] = {"",         "",       "Kepler", "Maxwell",      "Pascal",
                                      "Volta",    "Turing", "Ampere", "Ada Lovelace", "Hopper",
                                      "Blackwell"};
    return v < std::size(kNames) && v >= 2 ? Value(kNames[v]) : Value();
}

Value time_now(Device) { return timestamp(); }

const std::vector<Fact> kFacts = {
    {"timestamp", "", "", time_now},
    {"driver_version", "", "", driver_version},
    {"count", "", "", count},
    {"name", "gpu_name", "", TEXT(nvmlDeviceGetName)},
    {"serial", "gpu_serial", "", TEXT(nvmlDeviceGetSerial)},
    {"uuid", "gpu_uuid", "", TEXT(nvmlDeviceGetUUID)},
    {"index", "", "", NUMBER(nvmlDeviceGetIndex)},
    {"minor_number", "", "", NUMBER(nvmlDeviceGetMinorNumber)},
    {"architecture", "", "", architecture},
    {"board_part_number", "", "", TEXT(nvmlDeviceGetBoardPartNumber)},
    {"pci.bus_id", "gpu_bus_id", "", PCI(std::string(pci.busId))},
    {"pci.domain", "", "", PCI(format("0x%04X", pci.domain))},
    {"pci.bus", "", "", PCI(format("0x%02X", pci.bus))},
    {"pci.device", "", "", PCI(format("0x%02X", pci.device))},
    {"pci.device_id", "", "", PCI(format("0x%08X", pci.pciDeviceId))},
    {"pci.sub_device_id", "", "", PCI(format("0x%08X", pci.pciSubSystemId))},
    {"pcie.link.gen.current", "pcie.link.gen.gpucurrent", "",
     NUMBER(nvmlDeviceGetCurrPcieLinkGeneration)},
    {"pcie.link.gen.max", "pcie.link.gen.hostmax", "", NUMBER(nvmlDeviceGetMaxPcieLinkGeneration)},
    {"pcie.link.gen.gpumax", "", "", NUMBER(nvmlDeviceGetGpuMaxPcieLinkGeneration)},
    {"pcie.link.width.current", "", "", NUMBER(nvmlDeviceGetCurrPcieLinkWidth)},
    {"pcie.link.width.max", "", "", NUMBER(nvmlDeviceGetMaxPcieLinkWidth)},
    {"display_mode", "display_attached", "", ENABLED(nvmlDeviceGetDisplayMode)},
    {"display_active", "", "", ENABLED(nvmlDeviceGetDisplayActive)},
    {"persistence_mode", "", "", ENABLED(nvmlDeviceGetPersistenceMode)},
    {"accounting.mode", "", "", ENABLED(nvmlDeviceGetAccountingMode)},
    {"accounting.buffer_size", "", "", NUMBER(nvmlDeviceGetAccountingBufferSize)},
    {"vbios_version", "gpu_vbios_version", "", TEXT(nvmlDeviceGetVbiosVersion)},
    {"inforom.img", "inforom.image", "", TEXT(nvmlDeviceGetInforomImageVersion)},
    {"fan.speed", "", "%", NUMBER(nvmlDeviceGetFanSpeed)},
    {"pstate", "", "", performance_state},
    {"clocks_event_reasons.supported", "clocks_throttle_reasons.supported", "",
     REASONS(nvmlDeviceGetSupportedClocksThrottleReasons)},
    {"clocks_event_reasons.active", "clocks_throttle_reasons.active", "",
     REASONS(nvmlDeviceGetCurrentClocksThrottleReasons)},
    {"clocks_event_reasons.gpu_idle", "clocks_throttle_reasons.gpu_idle", "",
     REASON(nvmlClocksThrottleReasonGpuIdle)},
    {"clocks_event_reasons.applications_clocks_setting",
     "clocks_throttle_reasons.applications_clocks_setting", "",
     REASON(nvmlClocksThrottleReasonApplicationsClocksSetting)},
    {"clocks_event_reasons.sw_power_cap", "clocks_throttle_reasons.sw_power_cap", "",
     REASON(nvmlClocksThrottleReasonSwPowerCap)},
    {"clocks_event_reasons.hw_slowdown", "clocks_throttle_reasons.hw_slowdown", "",
     REASON(nvmlClocksThrottleReasonHwSlowdown)},
    {"clocks_event_reasons.hw_thermal_slowdown", "clocks_throttle_reasons.hw_thermal_slowdown", "",
     REASON(nvmlClocksThrottleReasonHwThermalSlowdown)},
    {"clocks_event_reasons.hw_power_brake_slowdown",
     "clocks_throttle_reasons.hw_power_brake_slowdown", "",
     REASON(nvmlClocksThrottleReasonHwPowerBrakeSlowdown)},
    {"clocks_event_reasons.sw_thermal_slowdown", "clocks_throttle_reasons.sw_thermal_slowdown", "",
     REASON(nvmlClocksThrottleReasonSwThermalSlowdown)},
    {"clocks_event_reasons.sync_boost", "clocks_throttle_reasons.sync_boost", "",
     REASON(nvmlClocksThrottleReasonSyncBoost)},
    {"memory.total", "", "MiB", MEMORY(total)},
    {"memory.reserved", "", "MiB", reserved},
    {"memory.used", "", "MiB", MEMORY(used)},
    {"memory.free", "", "MiB", MEMORY(free)},
    {"bar1.total", "", "MiB", BAR1(bar1Total)},
    {"bar1.used", "", "MiB", BAR1(bar1Used)},
    {"bar1.free", "", "MiB", BAR1(bar1Free)},
    {"compute_mode", "", "", compute_mode},
    {"compute_cap", "", "", capability},
    {"utilization.gpu", "", "%", BUSY(gpu)},
    {"utilization.memory", "", "%", BUSY(memory)},
    {"utilization.encoder", "", "%", FIRST_UNSIGNED(nvmlDeviceGetEncoderUtilization, number)},
    {"utilization.decoder", "", "%", FIRST_UNSIGNED(nvmlDeviceGetDecoderUtilization, number)},
    {"utilization.jpeg", "", "%", FIRST_UNSIGNED(nvmlDeviceGetJpgUtilization, number)},
    {"utilization.ofa", "", "%", FIRST_UNSIGNED(nvmlDeviceGetOfaUtilization, number)},
    {"ecc.mode.current", "", "", FIRST_ENABLED(nvmlDeviceGetEccMode)},
    {"ecc.mode.pending", "", "", SECOND_ENABLED(nvmlDeviceGetEccMode)},
    {"ecc.errors.corrected.volatile.total", "", "",
     ECC(NVML_MEMORY_ERROR_TYPE_CORRECTED, NVML_VOLATILE_ECC)},
    {"ecc.errors.corrected.aggregate.total", "", "",
     ECC(NVML_MEMORY_ERROR_TYPE_CORRECTED, NVML_AGGREGATE_ECC)},
    {"ecc.errors.uncorrected.volatile.total", "", "",
     ECC(NVML_MEMORY_ERROR_TYPE_UNCORRECTED, NVML_VOLATILE_ECC)},
    {"ecc.errors.uncorrected.aggregate.total", "", "",
     ECC(NVML_MEMORY_ERROR_TYPE_UNCORRECTED, NVML_AGGREGATE_ECC)},
    {"retired_pages.pending", "", "", ENABLED(nvmlDeviceGetRetiredPagesPendingStatus)},
    {"temperature.gpu", "", "", temperature},
    {"power.management", "", "", ENABLED(nvmlDeviceGetPowerManagementMode)},
    {"power.draw", "power.draw.instant", "W", WATTS(nvmlDeviceGetPowerUsage)},
    {"power.draw.average", "", "W", WATTS(nvmlDeviceGetPowerUsage)},
    {"power.limit", "", "W", WATTS(nvmlDeviceGetPowerManagementLimit)},
    {"enforced.power.limit", "", "W", WATTS(nvmlDeviceGetEnforcedPowerLimit)},
    {"power.default_limit", "", "W", WATTS(nvmlDeviceGetPowerManagementDefaultLimit)},
    {"power.min_limit", "", "W",
     FIRST_UNSIGNED(nvmlDeviceGetPowerManagementLimitConstraints, watts)},
    {"power.max_limit", "", "W",
     SECOND_UNSIGNED(nvmlDeviceGetPowerManagementLimitConstraints, watts)},
    {"clocks.current.graphics", "clocks.gr", "MHz",
     CLOCK(nvmlDeviceGetClockInfo, NVML_CLOCK_GRAPHICS)},
    {"clocks.current.sm", "clocks.sm", "MHz", CLOCK(nvmlDeviceGetClockInfo, NVML_CLOCK_SM)},
    {"clocks.current.memory", "clocks.mem", "MHz", CLOCK(nvmlDeviceGetClockInfo, NVML_CLOCK_MEM)},
    {"clocks.current.video", "clocks.video", "MHz",
     CLOCK(nvmlDeviceGetClockInfo, NVML_CLOCK_VIDEO)},
    {"clocks.applications.graphics", "clocks.applications.gr", "MHz",
     CLOCK(nvmlDeviceGetApplicationsClock, NVML_CLOCK_GRAPHICS)},
    {"clocks.applications.memory", "clocks.applications.mem", "MHz",
     CLOCK(nvmlDeviceGetApplicationsClock, NVML_CLOCK_MEM)},
    {"clocks.default_applications.graphics", "clocks.default_applications.gr", "MHz",
     CLOCK(nvmlDeviceGetDefaultApplicationsClock, NVML_CLOCK_GRAPHICS)},
    {"clocks.default_applications.memory", "clocks.default_applications.mem", "MHz",
     CLOCK(nvmlDeviceGetDefaultApplicationsClock, NVML_CLOCK_MEM)},
    {"clocks.max.graphics", "clocks.max.gr", "MHz",
     CLOCK(nvmlDeviceGetMaxClockInfo, NVML_CLOCK_GRAPHICS)},
    {"clocks.max.sm", "", "MHz", CLOCK(nvmlDeviceGetMaxClockInfo, NVML_CLOCK_SM)},
    {"clocks.max.memory", "clocks.max.mem", "MHz",
     CLOCK(nvmlDeviceGetMaxClockInfo, NVML_CLOCK_MEM)},
    {"mig.mode.current", "", "", FIRST_UNSIGNED(nvmlDeviceGetMigMode, enabled)},
    {"mig.mode.pending", "", "", SECOND_UNSIGNED(nvmlDeviceGetMigMode, enabled)},
    {"gsp.mode.current", "", "", FIRST_UNSIGNED(nvmlDeviceGetGspFirmwareMode, enabled)},
    {"gsp.mode.default", "", "", SECOND_UNSIGNED(nvmlDeviceGetGspFirmwareMode, enabled)},
};

std::string format_now(const char *pattern)
{
    char buffer[64];
    const time_t now = time(nullptr);
    tm local{};
    localtime_r(&now, &local);
    strftime(buffer, sizeof buffer, pattern, &local);
    return buffer;
}

}  // namespace

const std::vector<Fact> &facts() { return kFacts; }

const Fact *find_fact(std::string_view name)
{
    auto found = std::find_if(kFacts.begin(), kFacts.end(), [&](const Fact &f) {
        return f.name == name || (!f.alias.empty() && f.alias == name);
    });
    return found == kFacts.end() ? nullptr : &*found;
}

Value bare(std::string_view name, nvmlDevice_t device)
{
    const Fact *fact = find_fact(name);
    return fact ? fact->of(device) : Value();
}

std::string told(std::string_view name, nvmlDevice_t device)
{
    const Value value = bare(name, device);
    if (!value) return "N/A";
    const std::string_view unit = find_fact(name)->unit;
    return unit.empty() ? *value : *value + " " + std::string(unit);
}

std::vector<Process> processes(nvmlDevice_t device)
{
    std::vector<nvmlProcessInfo_t> infos(64);
    nvmlReturn_t r = NVML_ERROR_INSUFFICIENT_SIZE;
    unsigned n = 0;
    for (int i = 0; i < 4 && r == NVML_ERROR_INSUFFICIENT_SIZE; i++) {
        infos.resize(std::max<size_t>(infos.size(), n + 16));
        n = static_cast<unsigned>(infos.size());
        r = ASK(nvmlDeviceGetComputeRunningProcesses_v3, device, &n, infos.data());
    }
    std::vector<Process> all;
    for (unsigned i = 0; !r && i < n; i++) {
        char name[1024] = "";
        Process p{infos[i].pid, "[Not Found]", {}};
        if (!ASK(nvmlSystemGetProcessName, p.pid, name, static_cast<unsigned>(sizeof name)))
            p.name = name;
        if (infos[i].usedGpuMemory != ~0ull)
            p.memory = std::to_string(infos[i].usedGpuMemory >> 20);
        all.push_back(std::move(p));
    }
    return all;
}

std::string timestamp()
{
    timeval now{};
    gettimeofday(&now, nullptr);
    return format_now("%Y/%m/%d %H:%M:%S") + format(".%03ld", now.tv_usec / 1000);
}

std::string date() { return format_now("%a %b %e %H:%M:%S %Y"); }

std::string cuda_version()
{
    int v = 0;
    return ASK(nvmlSystemGetCudaDriverVersion_v2, &v) ? ""
                                                      : format("%d.%d", v / 1000, v % 1000 / 10);
}

}  // namespace rgpu::smi
