// Mount namespaces with a worker's own /dev (device_files.h), kept for the next worker that needs the same files: to make one and to take it
// down costs a tenth of a worker's start.
//
// Nobody can change what is in them: the files are mounted read-only, and workers have no capabilities. A namespace is as the host was when it was made;
// what is mounted on the host later is mounted there, too (mount_namespaces(7), MS_SLAVE). Any thread may call.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>

#include <sys/types.h>

#include "serverd/rgpud/device_files.h"
#include "util/fd.h"

namespace rgpu::serverd {

class DevSpaces {
public:
    // Says where one with these files is, if there is one.
    void find(OwnDev &) const;
    // That process has made one with these files. Nothing where the kernel does not let us have it.
    void keep(const OwnDev &, pid_t);

private:
    // GPUs can be combined in many ways: then all are let go, and made again by need.
    static constexpr size_t kMost = 64;

    mutable std::mutex mutex_;
    std::map<std::string, std::shared_ptr<Fd>> kept_;
};

}  // namespace rgpu::serverd
