// SPDX-License-Identifier: Apache-2.0
// An NVML that is made up: two GPUs, and the functions that NVML 580 has.
#include <cstdio>
#include <cstdlib>
extern "C" {
typedef struct nvmlDevice_st {
    int index;
} * Device;
struct Pci {
    char legacy[16];
    unsigned domain, bus, device, id, subsystem;
    char id_text[32];
};
static nvmlDevice_st devices[2] = {{0}, {1}};
int nvmlInit_v2() { return getenv("MISMATCH") ? 18 : 0; }
const char *nvmlErrorString(int) { return "Driver/library version mismatch"; }
int nvmlSystemGetDriverVersion(char *text, unsigned room)
{
    snprintf(text, room, "580.65.06");
    return getenv("MISMATCH") ? 1 : 0;
}
int nvmlSystemGetCudaDriverVersion_v2(int *version)
{
    *version = 13000;
    return 0;
}
int nvmlDeviceGetCount_v2(unsigned *count)
{
    *count = 2;
    return 0;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned i, Device *d)
{
    *d = &devices[i];
    return 0;
}
int nvmlDeviceGetUUID(Device d, char *text, unsigned room)
{
    snprintf(text, room, "GPU-%d", d->index);
    return 0;
}
int nvmlDeviceGetPciInfo_v3(Device d, Pci *pci)
{
    snprintf(pci->id_text, sizeof pci->id_text, "00000000:%02X:00.0", 0x3b + d->index);
    return 0;
}
int nvmlDeviceGetTemperature(Device, int sensor, unsigned *t)
{
    *t = 41;
    return sensor;
}
int nvmlDeviceGetPowerUsage(Device d, unsigned *milliwatts)
{
    *milliwatts = 61500 + 1000 * d->index;
    return 0;
}
int nvmlDeviceGetTemperatureThreshold(Device, int which, unsigned *t)
{
    *t = which ? 87 : 92;
    return 0;
}
int nvmlDeviceGetComputeMode(Device d, int *mode)
{
    *mode = 3 * d->index;
    return 0;
}
int nvmlDeviceGetPersistenceMode(Device, int *on)
{
    *on = 1;
    return 0;
}
int nvmlDeviceGetEccMode(Device d, int *now, int *next)
{
    *now = *next = d->index;
    return 0;
}
int nvmlDeviceGetTotalEccErrors(Device, int type, int counter, unsigned long long *n)
{
    *n = 10 * type + counter;
    return 0;
}
int nvmlDeviceGetP2PStatus(Device, Device, int what, int *status)
{
    *status = what == 2 ? 0 : 5;
    return 0;
}
}
