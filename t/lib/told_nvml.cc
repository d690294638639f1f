// SPDX-License-Identifier: Apache-2.0
// An NVML that is made up, for what a client passes on: each answer shows what was asked. Two GPUs,
// of told_driver.cc.
#include <cstdio>
#include <cstring>

extern "C" {

struct Device {
    int index;
};
static Device devices[2] = {{0}, {1}};

int nvmlInit_v2() { return 0; }

int nvmlDeviceGetHandleByPciBusId_v2(const char *address, Device **device)
{
    unsigned bus = 0;
    if (sscanf(address, "%*x:%x", &bus) != 1 || bus < 0x3b || bus > 0x3c) return 6;
    *device = &devices[bus - 0x3b];
    return 0;
}

int nvmlDeviceGetCurrPcieLinkGeneration(Device *d, unsigned *value)
{
    *value = 5 + static_cast<unsigned>(d->index);
    return 0;
}

int nvmlDeviceGetSerial(Device *d, char *text, unsigned room)
{
    return snprintf(text, room, "serial %d", d->index) < static_cast<int>(room) ? 0 : 7;
}

int nvmlDeviceGetP2PStatus(Device *a, Device *b, unsigned which, unsigned *status)
{
    *status = which * 100 + static_cast<unsigned>(10 * a->index + b->index);
    return 0;
}

int nvmlDeviceGetTotalEccErrors(Device *d, unsigned type, unsigned counter,
                                unsigned long long *count)
{
    *count = (1ull << 40) + 100 * type + 10 * counter + static_cast<unsigned>(d->index);
    return 0;
}

// Three, told of too little room first.
int nvmlDeviceGetSupportedMemoryClocks(Device *, unsigned *count, unsigned *clocks)
{
    const unsigned room = *count;
    *count = 3;
    if (room < 3) return 7;
    for (unsigned i = 0; i < 3; i++) clocks[i] = 1000 + i;
    return 0;
}

struct FieldValue {
    unsigned field, scope;
    long long time, latency;
    unsigned type, result;
    unsigned long long value;
};
int nvmlDeviceGetFieldValues(Device *, int count, FieldValue *values)
{
    for (int i = 0; i < count; i++) {
        values[i].type = 1;
        values[i].result = 0;
        values[i].value = 2 * values[i].field;
    }
    return 0;
}

// A struct that says its own size.
struct Fan {
    unsigned version, fan, speed;
};
int nvmlDeviceGetFanSpeedRPM(Device *, Fan *fan)
{
    if (fan->version != (sizeof *fan | 1u << 24)) return 25;
    fan->speed = 1000 + fan->fan;
    return 0;
}

struct Pci {
    char legacy[16];
    unsigned domain, bus, device, ids, subsystem;
    char id[32];
};
// Link 0 leads to the other GPU, 1 to a switch.
int nvmlDeviceGetNvLinkRemotePciInfo_v2(Device *d, unsigned link, Pci *pci)
{
    if (link > 1) return 2;
    memset(pci, 0, sizeof *pci);
    pci->bus = link ? 0x77u : 0x3cu - static_cast<unsigned>(d->index);
    snprintf(pci->id, sizeof pci->id, "00000000:%02X:00.0", pci->bus);
    return 0;
}

int nvmlDeviceGetPowerSource(Device *, unsigned *) { return 15; }  // lost
}
