// SPDX-License-Identifier: Apache-2.0
// Checks of this host's network interfaces, by /sys/class/net.
#include <dirent.h>

#include <algorithm>
#include <cstring>

#include "health/check.h"

namespace rgpu::health {
namespace {

const char *kFolder = "/sys/class/net/";

std::string about(const Host &host, const std::string &interface, const char *what)
{
    return text_of(host, kFolder + interface + "/" + what);
}

// Those that are up and have hardware behind them; where none has (containers), all that are up but
// lo.
std::vector<std::string> interfaces(const Host &host)
{
    std::vector<std::string> up, real;
    DIR *folder = opendir((host.root + kFolder).c_str());
    while (dirent *entry = folder ? readdir(folder) : nullptr) {
        std::string name = entry->d_name;
        if (name.starts_with(".") || name == "lo" || about(host, name, "operstate") != "up")
            continue;
        up.push_back(name);
        if (!about(host, name, "device/uevent").empty()) real.push_back(name);
    }
    if (folder) closedir(folder);
    std::vector<std::string> &chosen = real.empty() ? up : real;
    std::sort(chosen.begin(), chosen.end());
    return chosen;
}

// Mbit/s; 0: the driver does not say.
int speed_of(const Host &host, const std::string &interface)
{
    return std::max(0, atoi(about(host, interface, "speed").c_str()));
}

uint64_t counter(const Host &host, const std::string &interface, const char *name)
{
    return strtoull(about(host, interface, (std::string("statistics/") + name).c_str()).c_str(),
                    nullptr, 10);
}

template <class Look> Findings each(const Host &host, Look look)
{
    Findings all;
    for (const std::string &interface : interfaces(host)) all.push_back(look(interface));
    if (all.empty()) all.push_back(skipped("", "no network interface is up but lo"));
    return all;
}

}  // namespace

Findings mtu(const Host &host)
{
    return each(host, [&](const std::string &interface) {
        int bytes = atoi(about(host, interface, "mtu").c_str());
        bool fast = speed_of(host, interface) >= host.limits.fast_link;
        int limit = fast ? host.limits.fast_mtu : host.limits.mtu;
        std::string value = std::to_string(bytes), wanted = "at least " + std::to_string(limit);
        if (bytes >= limit) return pass(interface, value, wanted);
        return marginal(interface, value, wanted,
                        fast ? "ip link set " + interface + " mtu " + std::to_string(limit) +
                                   ", on the switch and all servers, too"
                             : "ip link set " + interface + " mtu " + std::to_string(limit));
    });
}

Findings link_speed(const Host &host)
{
    return each(host, [&](const std::string &interface) {
        int speed = speed_of(host, interface);
        if (!speed) return skipped(interface, "its driver tells no speed");
        std::string value = number_text(speed / 1000.0, " Gbit/s"),
                    limit = "at least " + number_text(host.limits.fast_link / 1000.0, " Gbit/s");
        if (speed >= host.limits.fast_link) return pass(interface, value, limit);
        return marginal(interface, value, limit,
                        "look at cable, transceiver and switch port if the card can do more; "
                        "copies run at this speed");
    });
}

Findings network_errors(const Host &host)
{
    return each(host, [&](const std::string &interface) {
        uint64_t bad = 0, packets = 0;
        for (const char *name : {"rx_errors", "tx_errors", "rx_dropped", "tx_dropped"})
            bad += counter(host, interface, name);
        for (const char *name : {"rx_packets", "tx_packets"})
            packets += counter(host, interface, name);
        std::string value = std::to_string(bad) + " of " + std::to_string(packets) + " packets";
        std::string limit = "at most " + number_text(host.limits.bad_packets) + " in a million";
        if (packets < host.limits.few_packets ||
            static_cast<double>(bad) * 1e6 <=
                host.limits.bad_packets * static_cast<double>(packets))
            return pass(interface, value, limit);
        return marginal(
            interface, value, limit,
            "ethtool -S " + interface +
                ": errors come from cable or transceiver, drops from too small rings (ethtool -G " +
                interface + ") or too slow a CPU");
    });
}

}  // namespace rgpu::health
