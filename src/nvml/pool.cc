// SPDX-License-Identifier: Apache-2.0
// The lease's GPUs and the connection to their servers.
#include "nvml/pool.h"

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>

#include "calls/calls.h"
#include "calls/uuid.h"
#include "interpose/base/addresses.h"
#include "interpose/base/log.h"
#include "wire/codec.h"
#include "wire/frame.h"
#include "wire/nvml.h"

namespace rgpu::nvml {

namespace {

using namespace std::chrono_literals;

constexpr auto kPatience = 10s;

// The next frame; false when none comes, or one that no server sends.
bool receive(int fd, wire::FrameHeader &h, std::vector<uint8_t> &body, net::Deadline deadline)
{
    if (!net::receive_all(fd, &h, sizeof h, deadline) || h.bytes > wire::kMaxServerBytes)
        return false;
    body.resize(h.bytes);
    return net::receive_all(fd, body.data(), body.size(), deadline).has_value();
}

}  // namespace

bool Link::connected()
{
    // The child of a fork has a connection of its own.
    if (to_.fd && process_ == getpid()) return true;
    if (refused_ && process_ == getpid()) return false;
    if (process_ != getpid()) to_.leave_to_parent();
    to_ = {};
    process_ = getpid();
    auto connect = [&]() -> Result<void> {
        auto to = net::connect_data(server_.address, server_.lease, server_.secret,
                                    calls::table_digest(), kPatience,
                                    [&] { interpose::say_waiting(server_); });
        if (!to) return std::move(to).error();
        const auto deadline = net::Clock::now() + kPatience;
        wire::FrameHeader h;
        std::vector<uint8_t> body;
        if (!receive(to->fd.get(), h, body, deadline) ||
            h.type != static_cast<uint16_t>(wire::ServerFrame::snapshot) || h.value)
            return error(ErrorKind::unavailable, "its driver does not start");
        auto snapshot = wire::decode_snapshot(body.data(), body.size());
        if (!snapshot) return std::move(snapshot).error();
        there_.clear();
        for (const auto &d : snapshot->devices) there_.push_back(d.pci_bus_id);
        interpose::readdress(*snapshot, server_.gpus);
        snapshot_ = std::make_unique<wire::Snapshot>(std::move(*snapshot));
        to_ = std::move(*to);
        return {};
    };
    auto r = connect();
    refused_ = !r;
    if (!r)
        interpose::say("NVML: server %s (%s) cannot be asked: %s", server_.name.c_str(),
                       server_.address.c_str(), r.error().text.c_str());
    return r.has_value();
}

int Link::index_of(const std::string &uuid) const
{
    for (size_t i = 0; i < snapshot_->devices.size(); i++)
        if (calls::uuid_text(snapshot_->devices[i].uuid) == uuid) return static_cast<int>(i);
    return -1;
}

const wire::DeviceSnapshot *Link::snapshot(const std::string &uuid)
{
    std::lock_guard lock(mutex_);
    if (!snapshot_ && !connected()) return nullptr;
    const int i = index_of(uuid);
    return i < 0 ? nullptr : &snapshot_->devices[static_cast<size_t>(i)];
}

bool Link::exchange(uint16_t type, const std::vector<uint8_t> &body, std::vector<uint8_t> &answer)
{
    const auto deadline = net::Clock::now() + kPatience;
    wire::FrameHeader h;
    h.type = type;
    h.bytes = static_cast<uint32_t>(body.size());
    h.flags = wire::kWantsReply;
    h.sequence = ++sequence_;
    if (!net::send_all(to_.fd.get(), &h, sizeof h, deadline) ||
        !net::send_all(to_.fd.get(), body.data(), body.size(), deadline))
        return false;
    do {
        if (!receive(to_.fd.get(), h, answer, deadline)) return false;
    } while (h.type != static_cast<uint16_t>(wire::ServerFrame::reply) || h.sequence != sequence_);
    return true;
}

bool Link::ask(std::vector<wire::DeviceStatus> &all)
{
    std::vector<uint8_t> body;
    if (!exchange(wire::kStatusCall, {}, body)) return false;
    wire::Reader r(body.data(), body.size());
    all.resize(r.count(sizeof(wire::DeviceStatus)));
    for (wire::DeviceStatus &s : all) s = r.value<wire::DeviceStatus>();
    release_ = r.string();
    return r.ok();
}

std::optional<std::vector<uint8_t>> Link::nvml(const std::vector<uint8_t> &body)
{
    std::lock_guard lock(mutex_);
    std::vector<uint8_t> answer;
    for (int i = 0; i < 2 && !older_ && connected(); i++) {
        if (exchange(wire::kNvmlCall, body, answer)) return answer;
        to_ = {};  // a server that was restarted, say: once more
        older_ = i == 1;
    }
    return std::nullopt;
}

std::string Link::address_of(const std::string &there)
{
    std::lock_guard lock(mutex_);
    for (size_t i = 0; snapshot_ && i < there_.size() && i < snapshot_->devices.size(); i++)
        if (there_[i] == there) return snapshot_->devices[i].pci_bus_id;
    return {};
}

int Link::number(const std::string &uuid)
{
    std::lock_guard lock(mutex_);
    return snapshot_ || connected() ? index_of(uuid) : -1;
}

wire::DeviceStatus Link::status(const std::string &uuid)
{
    std::lock_guard lock(mutex_);
    std::vector<wire::DeviceStatus> all;
    if (!connected()) return {};
    if (!ask(all)) {
        to_ = {};  // a server that was restarted, say: once more
        if (!connected() || !ask(all)) return {};
    }
    const auto i = static_cast<size_t>(index_of(uuid));
    return i < all.size() ? all[i] : wire::DeviceStatus{};
}

int Link::driver_version()
{
    std::lock_guard lock(mutex_);
    return snapshot_ || connected() ? snapshot_->driver_version : 0;
}

std::string Link::driver_release()
{
    std::lock_guard lock(mutex_);
    std::vector<wire::DeviceStatus> all;
    return connected() && ask(all) ? release_ : "";
}

Pool *open_pool()
{
    const char *path = getenv("RGPU_LEASE");
    if (!path || !*path) return nullptr;
    auto servers = interpose::read_lease(path);
    if (!servers) {
        interpose::say("NVML: %s", servers.error().text.c_str());
        return nullptr;
    }
    auto *pool = new Pool;
    for (interpose::LeaseServer &server : *servers) {
        const std::vector<Gpu> gpus = server.gpus;
        Link *link = pool->links.emplace_back(std::make_unique<Link>(std::move(server))).get();
        for (const Gpu &gpu : gpus)
            pool->devices.push_back(std::make_unique<Device>(
                Device{gpu, static_cast<unsigned>(pool->devices.size()), link}));
    }
    return pool;
}

namespace {

std::mutex mutex;
int users = 0;
Pool *the_pool;  // of the last nvmlInit that found a lease; kept after nvmlShutdown
std::atomic<Pool *> in_use{nullptr};

}  // namespace

Pool *pool_in_use() { return in_use; }

bool begin_use()
{
    std::lock_guard lock(mutex);
    if (!the_pool && !(the_pool = open_pool())) return false;
    users++;
    in_use = the_pool;
    return true;
}

bool end_use()
{
    std::lock_guard lock(mutex);
    if (!users) return false;
    if (--users == 0) in_use = nullptr;
    return true;
}

}  // namespace rgpu::nvml
