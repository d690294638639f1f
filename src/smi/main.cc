// SPDX-License-Identifier: Apache-2.0
// nvidia-smi for jobs: over NVML, so it shows exactly the leased GPUs.
#include <cstdio>
#include <cstring>
#include <ctime>
#include <exception>

#include "smi/facts.h"
#include "smi/options.h"
#include "smi/report.h"
#include "smi/views.h"
#include "util/next_token.h"

namespace rgpu::smi {

std::string help()
{
    return "NVIDIA System Management Interface of rgpu " RGPU_VERSION
           ": the GPUs that this job has leased\n\n"
           "usage: nvidia-smi [OPTION...]\n\n"
           "    -h,   --help                Print this text and exit\n"
           "          --version             Print versions and exit\n"
           "    -L,   --list-gpus           List the GPUs\n"
           "    -q,   --query               All that is known of the GPUs\n"
           "    -d,   --display=            Only these sections of -q: MEMORY, UTILIZATION, ECC,\n"
           "                                TEMPERATURE, POWER, CLOCK, COMPUTE, PIDS, "
           "PERFORMANCE,\n"
           "                                PAGE_RETIREMENT; several with commas\n"
           "    -x,   --xml-format          -q as XML\n"
           "    -i,   --id=                 Only these GPUs: index, UUID or PCI address; several\n"
           "                                with commas\n"
           "    -f,   --filename=           Write to a file\n"
           "    -l,   --loop=               Again and again, each so many seconds (5)\n"
           "    -lms, --loop-ms=            The same in milliseconds\n"
           "          --query-gpu=          Fields of GPUs; --help-query-gpu lists them\n"
           "          --query-compute-apps= Fields of the processes that use them;\n"
           "                                --help-query-compute-apps lists them\n"
           "          --format=             For both: csv, and with it noheader, nounits\n"
           "    topo -m                     How the GPUs are connected\n";
}

namespace {

int wrong(const Error &e)
{
    fprintf(stderr, "%s\n", e.text.c_str());
    return kWrongArgument;
}

int exit_status(nvmlReturn_t r)
{
    switch (r) {
    case NVML_SUCCESS: return kOk;
    case NVML_ERROR_INVALID_ARGUMENT: return kWrongArgument;
    case NVML_ERROR_NOT_SUPPORTED: return kNotAvailable;
    case NVML_ERROR_NO_PERMISSION: return kNoPermission;
    case NVML_ERROR_NOT_FOUND: return kNotFound;
    case NVML_ERROR_DRIVER_NOT_LOADED: return kNoDriver;
    case NVML_ERROR_GPU_IS_LOST: return kGpuLost;
    default: return kOther;
    }
}

// What -i names; all without it.
Result<std::vector<nvmlDevice_t>> chosen(const std::string &list)
{
    std::vector<nvmlDevice_t> devices;
    unsigned count = 0;
    ASK(nvmlDeviceGetCount_v2, &count);
    std::vector<std::string> names = tokens(list, ", ");
    for (unsigned i = 0; names.empty() && list.empty() && i < count; i++) {
        nvmlDevice_t d = nullptr;
        if (!ASK(nvmlDeviceGetHandleByIndex_v2, i, &d)) devices.push_back(d);
    }
    for (const std::string &name : names) {
        nvmlDevice_t d = nullptr;
        const bool number = name.find_first_not_of("0123456789") == name.npos && name.size() < 6;
        if ((number
                 ? ASK(nvmlDeviceGetHandleByIndex_v2, static_cast<unsigned>(atoi(name.c_str())), &d)
                 : ASK(nvmlDeviceGetHandleByUUID, name.c_str(), &d)) &&
            ASK(nvmlDeviceGetHandleByPciBusId_v2, name.c_str(), &d) &&
            ASK(nvmlDeviceGetHandleBySerial, name.c_str(), &d))
            return error(ErrorKind::invalid, "No devices were found: there is no GPU %s",
                         name.c_str());
        devices.push_back(d);
    }
    return devices;
}

Result<std::string> output(const std::vector<nvmlDevice_t> &devices, const Options &options)
{
    switch (options.verb) {
    case Options::list: return list(devices);
    case Options::report: return report(devices, options.display, options.xml);
    case Options::query_gpu:
    case Options::query_compute_apps: return query(devices, options);
    case Options::topology: return topology(devices);
    default: return table(devices);
    }
}

// What needs no driver: nothing where it needs one.
std::optional<std::string> plain(const Options &options)
{
    switch (options.verb) {
    case Options::help: return help();
    case Options::help_query_gpu: return help_query_gpu();
    case Options::help_query_compute_apps: return help_query_compute_apps();
    default: return std::nullopt;
    }
}

int begin()
{
    if (!open_nvml()) {
        fprintf(stderr, "NVIDIA-SMI couldn't find libnvidia-ml.so library in your system.\n");
        return kNoLibrary;
    }
    const nvmlReturn_t r = ASK(nvmlInit_v2);
    if (r)
        fprintf(stderr,
                "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. "
                "Make sure that this program runs in a job with GPUs (srun --gres=rgpu:1, rgpu "
                "run).\n");
    return exit_status(r);
}

int run(const Options &options)
{
    if (auto text = plain(options)) return fputs(text->c_str(), stdout) < 0 ? kOther : kOk;
    for (const std::string &name : options.display)
        if (!is_display(name))
            return wrong(
                error(ErrorKind::invalid, "\"%s\" is not a valid argument of -d", name.c_str()));
    if (int status = begin()) return status;
    if (options.verb == Options::version)
        return fputs(versions().c_str(), stdout) < 0 ? kOther : kOk;
    if (options.verb == Options::modify) {
        fprintf(stderr, "Insufficient Permissions: the GPUs are leased, and their server's "
                        "administrator sets them.\n");
        return kNoPermission;
    }
    if (!options.file.empty() && !freopen(options.file.c_str(), "w", stdout))
        return wrong(error(ErrorKind::invalid, "%s: %s", options.file.c_str(), strerror(errno)));
    auto devices = chosen(options.devices);
    if (!devices || devices->empty()) {
        fprintf(stderr, "%s\n", devices ? "No devices were found" : devices.error().text.c_str());
        return kNotFound;
    }
    for (bool first = true;; first = false) {
        Options now = options;
        now.header = options.header && first;
        auto text = output(*devices, now);
        if (!text) return wrong(text.error());
        if (fputs(text->c_str(), stdout) < 0 || fflush(stdout) != 0) return kOther;
        if (!options.loop_ms) return kOk;
        timespec pause{*options.loop_ms / 1000, *options.loop_ms % 1000 * 1000000l};
        nanosleep(&pause, nullptr);
    }
}

}  // namespace
}  // namespace rgpu::smi

int main(int count, char **arguments)
{
    try {
        auto options = rgpu::smi::parse(count, arguments);
        return options ? rgpu::smi::run(*options) : rgpu::smi::wrong(options.error());
    } catch (const std::exception &e) {
        fprintf(stderr, "nvidia-smi: %s\n", e.what());
        return rgpu::smi::kOther;
    }
}
