// SPDX-License-Identifier: Apache-2.0
/* A program that only looks at GPUs, and gets into need: see need.h.
 *
 * guarded_nvml LIBNVIDIA_ML nproc|as|nofile N            asks everything below that limit (as: MiB
 *                                                        more than the process has), then without
 * guarded_nvml LIBNVIDIA_ML malloc FROM TO STEP [MANY]   a process for each n: its n-th request for
 *                                                        memory fails, and MANY in a row; then all
 *                                                        is asked with memory
 *
 * Prints as guarded.c does. Exit status: 0, or 1 where something was wrong.
 */
#define _GNU_SOURCE
#include <nvml.h>

#include "need.h"

/* Some of each kind: what the lease file says, what only the server knows, lists, what NVIDIA's
 * library alone would know, events. */
static int work(void)
{
    nvmlDevice_t device, same;
    nvmlMemory_t memory;
    nvmlUtilization_t utilization;
    nvmlProcessInfo_t processes[8];
    nvmlEventSet_t events;
    char name[NVML_DEVICE_NAME_V2_BUFFER_SIZE], uuid[NVML_DEVICE_UUID_V2_BUFFER_SIZE],
        version[NVML_SYSTEM_DRIVER_VERSION_BUFFER_SIZE];
    unsigned count = 0, value, many = 8;
    int right = 1, driver;
    if (CALL(nvmlInit_v2)) return right;
    CALL(nvmlSystemGetDriverVersion, version, sizeof version);
    CALL(nvmlSystemGetCudaDriverVersion_v2, &driver);
    if (!CALL(nvmlDeviceGetCount_v2, &count)) EXPECT(count == 2);
    for (unsigned i = 0; i < count; i++) {
        if (CALL(nvmlDeviceGetHandleByIndex_v2, i, &device)) continue;
        if (!CALL(nvmlDeviceGetName, device, name, sizeof name))
            EXPECT(strstr(name, "software GPU"));
        if (!CALL(nvmlDeviceGetUUID, device, uuid, sizeof uuid)) {
            EXPECT(!strncmp(uuid, "GPU-", 4));
            if (!CALL(nvmlDeviceGetHandleByUUID, uuid, &same)) EXPECT(same == device);
        }
        if (!CALL(nvmlDeviceGetMemoryInfo, device, &memory)) EXPECT(memory.total == 64u << 20);
        if (!CALL(nvmlDeviceGetUtilizationRates, device, &utilization))
            EXPECT(utilization.gpu <= 100);
        CALL(nvmlDeviceGetTemperature, device, NVML_TEMPERATURE_GPU, &value);
        CALL(nvmlDeviceGetPowerUsage, device, &value);
        CALL(nvmlDeviceGetClockInfo, device, NVML_CLOCK_SM, &value);
        CALL(nvmlDeviceGetComputeRunningProcesses, device, &many, processes);
        CALL(nvmlDeviceGetMaxPcieLinkWidth, device, &value);
    }
    if (!CALL(nvmlEventSetCreate, &events)) CALL(nvmlEventSetFree, events);
    CALL(nvmlShutdown);
    return right;
}

int main(int argc, char **argv)
{
    int rc = 9;
    if (argc < 4 || !(library = dlopen(argv[1], RTLD_NOW)))
        return fprintf(stderr, "%s\n", argc < 4 ? "usage" : dlerror()), 9;
    if (!strcmp(argv[2], "malloc") && argc >= 6)
        rc = walk(atoi(argv[3]), atoi(argv[4]), atoi(argv[5]), argc > 6 ? atol(argv[6]) : 1);
    else
        rc = limited(argv[2], strtoul(argv[3], NULL, 10));
    quiet = 0;
    fflush(stdout);
    tell("ended", 0);
    return rc;
}
