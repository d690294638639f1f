// SPDX-License-Identifier: Apache-2.0
#include "net/ucx/rdma.h"

#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <filesystem>

namespace rgpu::net {

namespace {

namespace fs = std::filesystem;

constexpr char kActive[] = "4: ACTIVE";

bool active(const fs::path &port)
{
    FILE *f = fopen((port / "state").c_str(), "re");
    char text[32] = {};
    const bool read = f && fgets(text, sizeof text, f);
    if (f) fclose(f);
    return read && !strncmp(text, kActive, sizeof kActive - 1);
}

bool some_port_is_active(const std::string &sys)
{
    std::error_code failure;
    for (const auto &device : fs::directory_iterator(sys, failure))
        for (const auto &port : fs::directory_iterator(device.path() / "ports", failure))
            if (active(port.path())) return true;
    return false;
}

}  // namespace

bool has_rdma(const std::string &sys, const std::string &dev)
{
    if (!some_port_is_active(sys)) return false;
    std::error_code failure;
    for (const auto &file : fs::directory_iterator(dev, failure))
        if (file.path().filename().string().starts_with("uverbs") &&
            access(file.path().c_str(), R_OK | W_OK) == 0)
            return true;
    return false;
}

}  // namespace rgpu::net
