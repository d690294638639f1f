// SPDX-License-Identifier: Apache-2.0
// A driver that is made up: two GPUs with addresses, of which told_nvml.cc tells more.
#include <cstddef>
#include <cstdio>
#include <cstring>

extern "C" {

int cuInit(unsigned) { return 0; }
int cuDriverGetVersion(int *version) { return *version = 12080, 0; }
int cuDeviceGetCount(int *count) { return *count = 2, 0; }
int cuDeviceGet(int *device, int ordinal) { return *device = ordinal, 0; }
int cuDeviceGetName(char *name, int room, int d)
{
    return snprintf(name, static_cast<size_t>(room), "made up %d", d), 0;
}
int cuDeviceGetUuid_v2(char *uuid, int d) { return memset(uuid, d + 1, 16), 0; }
int cuDeviceTotalMem_v2(size_t *bytes, int) { return *bytes = size_t{1} << 30, 0; }
int cuDeviceGetPCIBusId(char *text, int room, int d)
{
    return snprintf(text, static_cast<size_t>(room), "0000:%02x:00.0", 0x3b + d), 0;
}
int cuDeviceGetAttribute(int *value, int, int) { return *value = 1, 0; }
int cuDeviceCanAccessPeer(int *can, int, int) { return *can = 1, 0; }
}
