// SPDX-License-Identifier: Apache-2.0
// What a program in a container sees: the libcuda.so.1 that it gets, the GPUs in it, and how many
// libnvidia-ml.so.1 has.
//
//     see_gpus    GPUs N in PATH: UUID ... nvml M      or why there are none

#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>

static unsigned nvml_count(void)
{
    void *nvml = dlopen("libnvidia-ml.so.1", RTLD_NOW);
    int (*init)(void) = nvml ? (int (*)(void))dlsym(nvml, "nvmlInit_v2") : NULL;
    int (*count)(unsigned *) = nvml ? (int (*)(unsigned *))dlsym(nvml, "nvmlDeviceGetCount_v2")
                                    : NULL;
    unsigned n = 0;
    return init && count && init() == 0 && count(&n) == 0 ? n : 0;
}

int main(void)
{
    void *cuda = dlopen("libcuda.so.1", RTLD_NOW);
    if (!cuda) {
        printf("no libcuda.so.1: %s\n", dlerror());
        return 1;
    }
    struct link_map *map = NULL;
    dlinfo(cuda, RTLD_DI_LINKMAP, &map);
    int (*init)(unsigned) = (int (*)(unsigned))dlsym(cuda, "cuInit");
    int (*count)(int *) = (int (*)(int *))dlsym(cuda, "cuDeviceGetCount");
    int (*uuid)(unsigned char *, int) =
        (int (*)(unsigned char *, int))dlsym(cuda, "cuDeviceGetUuid_v2");
    int rc = init ? init(0) : -1, n = 0;
    if (rc != 0 || count(&n) != 0) {
        printf("no GPU in %s: cuInit %d\n", map->l_name, rc);
        return 1;
    }
    printf("GPUs %d in %s:", n, map->l_name);
    for (int d = 0; d < n; ++d) {
        unsigned char u[16];
        if (uuid(u, d) != 0) return 1;
        printf(" GPU-");
        for (int i = 0; i < 16; ++i)
            printf(i == 4 || i == 6 || i == 8 || i == 10 ? "-%02x" : "%02x", u[i]);
    }
    printf(" nvml %u\n", nvml_count());
    return 0;
}
