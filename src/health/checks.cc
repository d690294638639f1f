// SPDX-License-Identifier: Apache-2.0
#include "health/check.h"

#include <cstdio>

namespace rgpu::health {

const std::vector<Check> &checks()
{
    static const std::vector<Check> table = {
        {"open files", Check::everywhere, open_files},
        {"locked memory", Check::everywhere, locked_memory},
        {"shared memory", Check::everywhere, shared_memory},
        {"memory", Check::everywhere, memory},
        {"host memory", Check::servers, host_memory},
        {"disk", Check::servers, disk},
        {"libraries", Check::everywhere, libraries},
        {"NCCL and cuDNN", Check::servers, users_libraries},
        {"settings", Check::servers, settings},
        {"MTU", Check::everywhere, mtu},
        {"link speed", Check::everywhere, link_speed},
        {"network errors", Check::everywhere, network_errors},
        {"driver", Check::servers, driver},
        {"driver release", Check::servers, driver_release},
        {"CUDA version", Check::servers, cuda},
        {"GPUs", Check::servers, gpu_count},
        {"stream memory operations", Check::servers, stream_memory_operations},
        {"host pointers", Check::servers, host_pointers},
        {"PCIe width", Check::servers, pcie_width},
        {"PCIe generation", Check::servers, pcie_generation},
        {"ECC", Check::servers, ecc},
        {"Xid", Check::servers, xid},
        {"temperature", Check::servers, temperature},
        {"compute mode", Check::servers, compute_mode},
        {"persistence mode", Check::servers, persistence},
        {"P2P", Check::servers, p2p},
    };
    return table;
}

Findings examine(const Host &host)
{
    Findings all;
    for (const Check &check : checks()) {
        if (check.where != Check::everywhere && (check.where == Check::servers) != host.server)
            continue;
        for (Finding &finding : check.look(host)) {
            finding.check = check.name;
            all.push_back(std::move(finding));
        }
    }
    return all;
}

Finding pass(std::string of, std::string value, std::string limit)
{
    return {"", std::move(of), Verdict::pass, std::move(value), std::move(limit), ""};
}

Finding info(std::string of, std::string value, std::string cure)
{
    return {"", std::move(of), Verdict::info, std::move(value), "", std::move(cure)};
}

Finding skipped(std::string of, std::string why)
{
    return {"", std::move(of), Verdict::skipped, std::move(why), "", ""};
}

Finding marginal(std::string of, std::string value, std::string limit, std::string cure)
{
    return {
        "", std::move(of), Verdict::marginal, std::move(value), std::move(limit), std::move(cure)};
}

Finding fatal(std::string of, std::string value, std::string limit, std::string cure)
{
    return {"", std::move(of), Verdict::fatal, std::move(value), std::move(limit), std::move(cure)};
}

Verdict at_least(double value, double marginal, double fatal)
{
    return value < fatal ? Verdict::fatal : value < marginal ? Verdict::marginal : Verdict::pass;
}

Verdict at_most(double value, double marginal, double fatal)
{
    return value > fatal ? Verdict::fatal : value > marginal ? Verdict::marginal : Verdict::pass;
}

std::string size_text(uint64_t bytes)
{
    if (bytes == UINT64_MAX) return "unlimited";
    const char *units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    size_t unit = 0;
    auto size = static_cast<double>(bytes);
    for (; size >= 1024 && unit + 1 < std::size(units); ++unit) size /= 1024;
    return number_text(size, (std::string(" ") + units[unit]).c_str());
}

std::string number_text(double value, const char *unit)
{
    char text[64];
    snprintf(text, sizeof text, "%.4g%s", value, unit);
    return text;
}

}  // namespace rgpu::health
