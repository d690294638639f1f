// The GPUs of this process's lease, as NVML sees them. The lease file says which they are and how
// much memory is ours; what changes, or only the server knows, is asked of a worker, over a
// connection made at the first such question. Any thread; nothing is ever freed.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "interpose/lease.h"
#include "net/handshake/data_connection.h"
#include "wire/snapshot.h"
#include "wire/status.h"

namespace rgpu::nvml {

struct Gpu {
    std::string uuid;  // as nvidia-smi prints it
    std::string name;
    uint64_t memory = 0;  // the lease's cap, in bytes
};

// One connection to one server.
class Link {
public:
    explicit Link(interpose::LeaseServer server) : server_(std::move(server)) {}

    // The snapshot of a GPU by its UUID, or null if the server cannot be asked or does not know it.
    const wire::DeviceSnapshot *snapshot(const std::string &uuid);
    // How it stands now; all unknown if the server cannot be asked.
    wire::DeviceStatus status(const std::string &uuid);
    int driver_version();          // 0: not known
    std::string driver_release();  // "": not known

private:
    bool connected();
    bool ask(std::vector<wire::DeviceStatus> &all);
    int index_of(const std::string &uuid) const;

    const interpose::LeaseServer server_;
    std::mutex mutex_;
    net::DataConnection to_;
    pid_t process_ = 0;
    bool refused_ = false;
    uint32_t sequence_ = 0;
    std::string release_;
    std::unique_ptr<wire::Snapshot> snapshot_;
};

struct Device {
    Gpu gpu;
    unsigned index = 0;
    Link *link = nullptr;
};

struct Pool {
    std::vector<std::unique_ptr<Link>> links;
    std::vector<std::unique_ptr<Device>> devices;
};

// Reads the lease: null without one, or when it cannot be read (which is said once).
Pool *open_pool();

}  // namespace rgpu::nvml
