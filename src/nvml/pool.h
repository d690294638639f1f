// SPDX-License-Identifier: Apache-2.0
// The GPUs of this process's lease, as NVML sees them. The lease file says which they are and how
// much memory is ours; what changes, or only the server knows, is asked of a worker, over a
// connection made at the first such question. Any thread; nothing is ever freed.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "interpose/base/lease.h"
#include "net/handshake/data_connection.h"
#include "wire/snapshot.h"
#include "wire/status.h"

namespace rgpu::nvml {

using Gpu = interpose::LeasedGpu;

// One connection to one server.
class Link {
public:
    explicit Link(interpose::LeaseServer server) : server_(std::move(server)) {}

    // The snapshot of a GPU by its UUID, or null if the server cannot be asked or does not know it.
    const wire::DeviceSnapshot *snapshot(const std::string &uuid);
    // How it stands now; all unknown if the server cannot be asked.
    wire::DeviceStatus status(const std::string &uuid);
    // The answer to a frame of kNvmlCall (wire/nvml.h); nothing where the server cannot be asked.
    std::optional<std::vector<uint8_t>> nvml(const std::vector<uint8_t> &body);
    // A GPU's number in the snapshot; -1 if the server cannot be asked or does not know it.
    int number(const std::string &uuid);
    int driver_version();          // 0: not known
    std::string driver_release();  // "": not known

    // What programs see for an address on the server; empty where no GPU of the lease has it.
    std::string address_of(const std::string &there);

private:
    bool connected();
    // Sends a frame and gets the answer's body.
    bool exchange(uint16_t type, const std::vector<uint8_t> &body, std::vector<uint8_t> &answer);
    bool ask(std::vector<wire::DeviceStatus> &all);
    int index_of(const std::string &uuid) const;

    const interpose::LeaseServer server_;
    std::mutex mutex_;
    net::DataConnection to_;
    pid_t process_ = 0;
    bool refused_ = false;
    bool older_ = false;  // ends the connection where it is asked with kNvmlCall
    uint32_t sequence_ = 0;
    std::string release_;
    std::unique_ptr<wire::Snapshot> snapshot_;
    std::vector<std::string> there_;  // the devices' addresses on the server
};

struct Device {
    Gpu gpu;
    unsigned index = 0;
    Link *link = nullptr;
};

struct Pool {
    std::vector<std::unique_ptr<Link>> links;
    std::vector<std::unique_ptr<Device>> devices;

    // Of a handle that a program has; null where it is none.
    Device *find(const void *handle) const
    {
        for (auto &d : devices)
            if (d.get() == handle) return d.get();
        return nullptr;
    }
};

// Reads the lease: null without one, or when it cannot be read (which is said once).
Pool *open_pool();

// The pool of the lease between nvmlInit and nvmlShutdown, which are counted; else null.
Pool *pool_in_use();
// False where there is none to be opened.
bool begin_use();
// False where it is not in use.
bool end_use();

}  // namespace rgpu::nvml
