// SPDX-License-Identifier: Apache-2.0
// The lease file, which the user may write: as programs of root read it for their view of the GPUs,
// and as the libraries in the program do. `rgpu` reads it by what the target `answer` is for.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "interpose/base/lease.h"
#include "view/gpus.h"

using namespace rgpu;

namespace {

// A file in memory; root's reader follows no link, so not by /proc.
class File {
public:
    File()
    {
        char name[] = "/dev/shm/rgpu-fuzz-lease.XXXXXX";
        fd_ = mkstemp(name);
        if (fd_ < 0) perror(name), abort();
        path = name;
    }
    ~File() { unlink(path.c_str()); }

    void hold(const uint8_t *data, size_t bytes) const
    {
        if (ftruncate(fd_, 0) != 0 || pwrite(fd_, data, bytes, 0) != static_cast<ssize_t>(bytes))
            perror(path.c_str()), abort();
    }

    std::string path;

private:
    int fd_;
};

bool is_printable(const std::string &text)
{
    return text.size() <= 95 &&
           std::all_of(text.begin(), text.end(), [](char c) { return c >= ' ' && c <= '~'; });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static const File file;
    file.hold(data, bytes);
    if (const auto gpus = view::read_gpus(file.path)) {
        if (gpus->empty() || gpus->size() > view::kMostGpus) abort();
        for (const view::Gpu &gpu : *gpus)
            for (const std::string &text : {gpu.uuid, gpu.name, gpu.pci, gpu.server})
                if (!is_printable(text)) abort();
        (void)view::gpu_variables(*gpus);
    }
    if (const auto servers = interpose::read_lease(file.path)) {
        if (servers->empty()) abort();
        for (const interpose::LeaseServer &server : *servers)
            if (server.address.empty() || server.lease.empty() || server.secret.empty()) abort();
    }
    return 0;
}
