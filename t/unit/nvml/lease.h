// SPDX-License-Identifier: Apache-2.0
// A lease file for a test: two servers that nobody can reach, with two GPUs and one.
#pragma once

#include <criterion/criterion.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <string>

inline void write_lease(const std::string &json)
{
    char path[] = "/tmp/rgpu-nvml.XXXXXX";
    int fd = mkstemp(path);
    cr_assert(fd >= 0);
    close(fd);
    std::ofstream(path) << json;
    setenv("RGPU_LEASE", path, 1);
}

inline void two_servers()
{
    // Port 1 of loopback: refused at once. What says nothing of waiting is a lease that is none.
    write_lease(R"({"version": 1, "servers": [
        {"name": "gpu1", "address": "nowhere", "lease": "0123", "secret": "00ff", "gpus": [
            {"uuid": "GPU-a", "name": "NVIDIA A100", "memory": 1048576},
            {"uuid": "GPU-b", "name": "NVIDIA A100", "memory": 0}]},
        {"name": "gpu2", "address": "nowhere", "lease": "4567", "secret": "00ff", "gpus": [
            {"uuid": "GPU-c", "name": "NVIDIA H100"}]}]})");
}

// For a test's end.
inline void remove_lease()
{
    if (const char *path = getenv("RGPU_LEASE")) unlink(path);
}
