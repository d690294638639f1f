// SPDX-License-Identifier: Apache-2.0
#include "cli/parts/path_checks.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <filesystem>

#include "util/fd.h"

namespace rgpu::cli {
namespace {

using health::Finding;
using health::Findings;
using Clock = std::chrono::steady_clock;

constexpr int kRounds = 5;                  // of which the best counts
constexpr size_t kProbe = size_t{8} << 20;  // bytes: some milliseconds on a fast link

double since(Clock::time_point start)
{
    return std::chrono::duration<double>(Clock::now() - start).count();
}

// A TCP connection, or why there is none.
Result<Fd> connect_to(const std::string &host, int port, Milliseconds timeout)
{
    addrinfo hints{}, *found = nullptr;
    hints.ai_socktype = SOCK_STREAM;
    if (int failure = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found))
        return error(ErrorKind::disconnected, "%s: %s", host.c_str(), gai_strerror(failure));
    int why = ECONNREFUSED;
    for (addrinfo *a = found; a; a = a->ai_next) {
        Fd fd(socket(a->ai_family, a->ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC, a->ai_protocol));
        if (!fd) continue;
        why = 0;
        if (connect(fd.get(), a->ai_addr, a->ai_addrlen) != 0) {
            pollfd look{fd.get(), POLLOUT, 0};
            socklen_t size = sizeof why;
            why = errno;
            if (why == EINPROGRESS)
                why = poll(&look, 1, static_cast<int>(timeout.count())) <= 0         ? ETIMEDOUT
                      : getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &why, &size) == 0 ? why
                                                                                     : errno;
        }
        if (why == 0) {
            freeaddrinfo(found);
            return fd;
        }
    }
    freeaddrinfo(found);
    return error(ErrorKind::disconnected, "%s", strerror(why));
}

// The major version of the CUDA runtime behind the interposer: 0 where there is none.
int toolkit_of(const std::vector<std::string> &folders)
{
    int newest = 0;
    for (const std::string &folder : folders)
        for (int major = 11; major < 30; ++major)
            if (std::error_code failure;
                std::filesystem::exists(folder + "/libcudart.so." + std::to_string(major), failure))
                newest = std::max(newest, major);
    return newest;
}

std::string milliseconds(double seconds) { return health::number_text(seconds * 1000, " ms"); }

// The address without its port, for a person; empty where it is none.
std::string text_of(const sockaddr_storage &address)
{
    char text[INET6_ADDRSTRLEN] = "";
    if (address.ss_family == AF_INET)
        inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in &>(address).sin_addr, text,
                  sizeof text);
    else if (address.ss_family == AF_INET6)
        inet_ntop(AF_INET6, &reinterpret_cast<const sockaddr_in6 &>(address).sin6_addr, text,
                  sizeof text);
    return text;
}

// The bytes of an address.
std::string_view bytes_of(const sockaddr &address)
{
    if (address.sa_family == AF_INET)
        return {reinterpret_cast<const char *>(
                    &reinterpret_cast<const sockaddr_in &>(address).sin_addr),
                4};
    return {
        reinterpret_cast<const char *>(&reinterpret_cast<const sockaddr_in6 &>(address).sin6_addr),
        16};
}

bool in_one_subnet(std::string_view a, std::string_view b, std::string_view mask)
{
    for (size_t i = 0; i < mask.size() && i < a.size() && i < b.size(); ++i)
        if ((a[i] ^ b[i]) & mask[i]) return false;
    return a.size() == b.size();
}

// Whether both ends of the connection lie in one subnet of an interface of this host.
Finding network_to(int socket)
{
    sockaddr_storage here{}, there{};
    socklen_t size = sizeof here, other = sizeof there;
    ifaddrs *all = nullptr;
    if (getsockname(socket, reinterpret_cast<sockaddr *>(&here), &size) != 0 ||
        getpeername(socket, reinterpret_cast<sockaddr *>(&there), &other) != 0 ||
        getifaddrs(&all) != 0)
        return health::skipped("", strerror(errno));
    const std::string_view mine = bytes_of(reinterpret_cast<sockaddr &>(here)),
                           its = bytes_of(reinterpret_cast<sockaddr &>(there));
    std::string interface;
    bool direct = mine == its;
    for (ifaddrs *one = all; one; one = one->ifa_next) {
        if (!one->ifa_addr || !one->ifa_netmask || one->ifa_addr->sa_family != here.ss_family ||
            bytes_of(*one->ifa_addr) != mine)
            continue;
        interface = one->ifa_name;
        direct |= in_one_subnet(mine, its, bytes_of(*one->ifa_netmask));
    }
    freeifaddrs(all);
    const std::string value = text_of(here) + (interface.empty() ? "" : " (" + interface + ")") +
                              " to " + text_of(there);
    if (direct) return health::pass("", value, "one subnet");
    return health::info("", value + ", through a router",
                        "where nodes and servers have a faster network in common, give [[server]] "
                        "address its name there");
}

class Look {
public:
    explicit Look(const Path &path) : path_(path) {}

    Findings all()
    {
        if (reachable()) {
            clock();
            version();
            latency();
            path_mtu();
            bandwidth();
            data_port();
            toolkit();
        }
        return std::move(findings_);
    }

private:
    void add(const char *check, Finding finding)
    {
        finding.check = check;
        findings_.push_back(std::move(finding));
    }

    bool reachable()
    {
        Result<HostPort> address = parse_address(path_.server.address);
        Result<Fd> socket = address ? connect_to(address->host, address->port, path_.timeout)
                                    : Result<Fd>(address.error());
        if (!socket) {
            add("control port",
                health::fatal("", path_.server.address + ": " + socket.error().text, "it answers",
                              "is the host up, and rgpud (systemctl status rgpud)? Does a firewall "
                              "close the port, is the "
                              "address in rgpu.conf right?"));
            return false;
        }
        add("control port", health::pass("", path_.server.address));
        add("network", network_to(socket->get()));
        host_ = address->host;
        tcp_info info{};
        socklen_t size = sizeof info;
        if (getsockopt(socket->get(), IPPROTO_TCP, TCP_INFO, &info, &size) == 0)
            mtu_ = static_cast<int>(info.tcpi_pmtu);
        round_trip_ = info.tcpi_rtt / 1e6;
        for (int i = 1; i < kRounds; ++i)
            if (Result<Fd> again = connect_to(address->host, address->port, path_.timeout))
                if (getsockopt(again->get(), IPPROTO_TCP, TCP_INFO, &info, &size) == 0)
                    round_trip_ = std::min(round_trip_, info.tcpi_rtt / 1e6);
        return true;
    }

    // Where the clocks are too far apart no credential is good: this one asks for none.
    void clock()
    {
        using Wall = std::chrono::system_clock;
        auto wall = [] {
            return std::chrono::duration<double>(Wall::now().time_since_epoch()).count();
        };
        double before = wall();
        Result<pool::Alive> alive = path_.client.alive(path_.server.name);
        double after = wall();
        if (!alive) {
            add("clock", health::skipped("", alive.error().text));
            return;
        }
        alive_ = *alive;
        if (alive->time_ms == 0) {
            add("clock", health::skipped("", "that rgpud does not tell its time"));
            return;
        }
        double there = static_cast<double>(alive->time_ms) / 1000;
        // It lies between: nothing less than half of the answer's time can be seen.
        double skew = std::max(0.0, std::fabs(there - (before + after) / 2) - (after - before) / 2);
        const health::Limits &l = path_.limits;
        Finding finding = health::pass("", health::number_text(skew, " s apart"),
                                       "at most " + health::number_text(l.skew, " s"));
        finding.verdict = health::at_most(skew, l.skew, l.most_skew);
        if (finding.verdict != health::Verdict::pass)
            finding.cure = "set both clocks by NTP (chrony, systemd-timesyncd): credentials are "
                           "good for a short time only";
        add("clock", std::move(finding));
    }

    void version()
    {
        if (alive_.version.empty())
            add("version", health::skipped("", "it did not answer"));
        else if (alive_.name != path_.server.name)
            add("version",
                health::fatal(
                    "", "it calls itself " + alive_.name, path_.server.name,
                    "give the server one name: [[server]] name here, [rgpud] name there"));
        else if (alive_.version != RGPU_VERSION)
            add("version",
                health::marginal(
                    "", "rgpu " + alive_.version, "rgpu " RGPU_VERSION,
                    "install the same rgpu on both: calls that one of them does not know fail"));
        else
            add("version", health::pass("", "rgpu " + alive_.version, "rgpu " RGPU_VERSION));
    }

    void latency()
    {
        const health::Limits &l = path_.limits;
        Finding finding =
            health::pass("", milliseconds(round_trip_), "at most " + milliseconds(l.latency));
        finding.verdict = health::at_most(round_trip_, l.latency);
        if (finding.verdict != health::Verdict::pass)
            finding.cure = "each call that needs an answer takes as long: put node and server "
                           "nearer together (fewer hops, no VPN, no Wi-Fi)";
        add("latency", std::move(finding));
    }

    void path_mtu()
    {
        std::string limit = "at least " + std::to_string(path_.limits.mtu);
        if (mtu_ <= 0)
            add("path MTU", health::skipped("", "the kernel does not tell"));
        else if (mtu_ >= path_.limits.mtu)
            add("path MTU", health::pass("", std::to_string(mtu_), limit));
        else
            add("path MTU", health::marginal("", std::to_string(mtu_), limit,
                                             "find the hop that takes less: tracepath " + host_));
    }

    void bandwidth()
    {
        // The small one has the cost of a request, the large one that and the bytes.
        double small = 1e9, large = 1e9;
        for (int i = 0; i < 3; ++i)
            for (size_t bytes : {size_t{1}, kProbe}) {
                auto start = Clock::now();
                Result<size_t> got = path_.client.probe(path_.server.name, bytes);
                if (!got) {
                    add("bandwidth", health::skipped("", got.error().text));
                    return;
                }
                (bytes == 1 ? small : large) = std::min(bytes == 1 ? small : large, since(start));
            }
        double rate = static_cast<double>(kProbe) / std::max(large - small, 1e-6);
        const health::Limits &l = path_.limits;
        Finding finding =
            health::pass("", health::number_text(rate / 1e9, " GB/s"),
                         "at least " + health::number_text(l.bandwidth / 1e9, " GB/s"));
        finding.verdict = health::at_least(rate, l.bandwidth);
        if (finding.verdict != health::Verdict::pass)
            finding.cure = "copies run at this speed: use the faster network's address in "
                           "rgpu.conf; iperf3 says what the path can do";
        add("bandwidth", std::move(finding));
    }

    void data_port()
    {
        Result<pool::Inventory> inventory = path_.client.inventory_of(path_.server.name);
        if (!inventory) {
            add("data port",
                health::fatal(
                    "", inventory.error().text, "the server answers",
                    "see the error; rgpud's log on the server says more (journalctl -u rgpud)"));
            return;
        }
        cuda_ = inventory->driver_version;
        std::string address = host_ + ":" + std::to_string(inventory->data_port);
        Result<Fd> socket = connect_to(host_, inventory->data_port, path_.timeout);
        if (socket)
            add("data port", health::pass("", address));
        else
            add("data port",
                health::fatal("", address + ": " + socket.error().text, "it answers",
                              "open the port in the firewalls between: programs connect to it"));
    }

    void toolkit()
    {
        int toolkit = toolkit_of(path_.library_path);
        if (!toolkit || !cuda_) {
            add("toolkit",
                health::skipped("", toolkit ? "the server did not tell its driver's version"
                                            : "[client] library_path has no libcudart.so"));
            return;
        }
        std::string value = "toolkit " + std::to_string(toolkit) + ", driver for " +
                            std::to_string(cuda_ / 1000) + "." + std::to_string(cuda_ % 1000 / 10);
        std::string limit = "the driver is not older";
        if (cuda_ / 1000 >= toolkit)
            add("toolkit", health::pass("", value, limit));
        else
            add("toolkit",
                health::marginal("", value, limit,
                                 "update the server's driver, or use the toolkit of CUDA " +
                                     std::to_string(cuda_ / 1000) +
                                     ": programs of a newer major version do not start"));
    }

    const Path &path_;
    Findings findings_;
    std::string host_;
    pool::Alive alive_;
    double round_trip_ = 0;
    int mtu_ = 0, cuda_ = 0;
};

}  // namespace

Findings look_at_path(const Path &path) { return Look(path).all(); }

}  // namespace rgpu::cli
