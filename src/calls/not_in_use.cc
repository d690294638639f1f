// SPDX-License-Identifier: Apache-2.0
#include "calls/not_in_use.h"

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace rgpu::calls {

namespace {

// The settings' largest: names of up to 1,023 characters.
constexpr size_t kNameBytes = 1024;

struct Setting {
    char bytes[kNameBytes];
    size_t size;
};

Setting word(bool value)
{
    Setting s{{}, sizeof value};
    memcpy(s.bytes, &value, sizeof value);
    return s;
}

Setting name(const char *prefix)
{
    Setting s{{}, kNameBytes};
    char host[256] = "";
    gethostname(host, sizeof host - 1);
    snprintf(s.bytes, sizeof s.bytes, "%s.cuda.%s.%d", prefix, host, static_cast<int>(getpid()));
    return s;
}

// No size: there is no such setting.
Setting setting(CUcoredumpSettings which)
{
    switch (which) {
    case CU_COREDUMP_TRIGGER_HOST: return word(true);
    case CU_COREDUMP_ENABLE_ON_EXCEPTION:
    case CU_COREDUMP_LIGHTWEIGHT:
    case CU_COREDUMP_ENABLE_USER_TRIGGER: return word(false);
    case CU_COREDUMP_FILE: return name("core");
    case CU_COREDUMP_PIPE: return name("corepipe");
#if CUDA_VERSION >= 12050
    case CU_COREDUMP_GENERATION_FLAGS: return Setting{{}, sizeof(int)};
#endif
    default: return Setting{{}, 0};
    }
}

struct Announced {
    Interest interest;
    Announced *next;
};
Announced *announced;
pthread_mutex_t announced_mutex = PTHREAD_MUTEX_INITIALIZER;

}  // namespace

CUresult all_sms(CUdevResource *resource, CUdevResourceType type, int sms, int major)
{
    if (!resource) return CUDA_ERROR_INVALID_VALUE;
    if (type != CU_DEV_RESOURCE_TYPE_SM) return CUDA_ERROR_INVALID_RESOURCE_TYPE;
    *resource = {};
    resource->type = type;
    resource->sm.smCount = static_cast<unsigned>(sms);
#if CUDA_VERSION >= 13000
    // CUDA Driver API, cuDevSmResourceSplitByCount: by architecture.
    resource->sm.minSmPartitionSize = major >= 9 ? 8 : major == 8 ? 4 : 2;
    resource->sm.smCoscheduledAlignment = major >= 9 ? 8 : 2;
#else
    (void)major;
#endif
    return CUDA_SUCCESS;
}

CUresult coredump_setting(CUcoredumpSettings which, void *value, size_t *bytes)
{
    const Setting s = setting(which);
    if (!s.size || !bytes ||
        (value && *bytes < (s.size == kNameBytes ? strlen(s.bytes) + 1 : s.size)))
        return CUDA_ERROR_INVALID_VALUE;
    if (value)
        memcpy(value, s.bytes, *bytes < s.size ? *bytes : s.size);
    else
        *bytes = s.size;
    return CUDA_SUCCESS;
}

CUresult set_coredump(CUcoredumpSettings which, const void *value, const size_t *bytes)
{
    const Setting s = setting(which);
    if (!s.size || !value || !bytes) return CUDA_ERROR_INVALID_VALUE;
    const bool is_name = s.size == kNameBytes;
    if (is_name ? !*bytes || *bytes > kNameBytes : *bytes < s.size) return CUDA_ERROR_INVALID_VALUE;
    const bool same = is_name ? !strncmp(static_cast<const char *>(value), s.bytes, *bytes)
                              : !memcmp(value, s.bytes, s.size);
    return same ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
}

CUresult announce(Interest interest, void **handle)
{
    auto *a = static_cast<Announced *>(calloc(1, sizeof(Announced)));
    if (!a) return CUDA_ERROR_OUT_OF_MEMORY;
    pthread_mutex_lock(&announced_mutex);
    *a = {interest, announced};
    announced = a;
    pthread_mutex_unlock(&announced_mutex);
    *handle = a;
    return CUDA_SUCCESS;
}

CUresult withdraw(Interest interest, void *handle)
{
    pthread_mutex_lock(&announced_mutex);
    Announced **link = &announced;
    while (*link && (*link != handle || (*link)->interest != interest)) link = &(*link)->next;
    Announced *found = *link;
    if (found) *link = found->next;
    pthread_mutex_unlock(&announced_mutex);
    free(found);
    return found ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult log_position(unsigned *iterator, unsigned flags)
{
    if (!iterator || flags) return CUDA_ERROR_INVALID_VALUE;
    *iterator = 0;
    return CUDA_SUCCESS;
}

CUresult log_to_file(unsigned *, const char *path, unsigned flags)
{
    if (!path || flags) return CUDA_ERROR_INVALID_VALUE;
    const int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    if (fd < 0) return CUDA_ERROR_INVALID_VALUE;
    close(fd);
    return CUDA_SUCCESS;
}

CUresult log_to_memory(unsigned *, char *buffer, size_t *bytes, unsigned flags)
{
    if (!buffer || !bytes || flags) return CUDA_ERROR_INVALID_VALUE;
    if (*bytes) buffer[0] = 0;
    *bytes = 0;
    return CUDA_SUCCESS;
}

#if CUDA_VERSION >= 12080
CUresult checkpoint_state(int pid, CUprocessState *state)
{
    if (!state) return CUDA_ERROR_INVALID_VALUE;
    if (pid != getpid()) return CUDA_ERROR_NOT_SUPPORTED;
    *state = CU_PROCESS_STATE_RUNNING;
    return CUDA_SUCCESS;
}
#endif

}  // namespace rgpu::calls
