// A process opens another one's memory while another device is current, as NCCL does. The program
// starts itself for the second process.
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

__global__ void add(int *p, int v) { *p += v; }

static int other(const char *text)
{
    cudaIpcMemHandle_t handle;
    for (size_t i = 0; i < sizeof handle; i++)
        sscanf(text + 2 * i, "%2hhx", reinterpret_cast<unsigned char *>(&handle) + i);
    int *p, got = 0;
    CHECK(cudaSetDevice(0));
    CHECK(cudaFree(nullptr));
    CUdeviceptr address;
    CUipcMemHandle same;
    memcpy(&same, &handle, sizeof same);
    // Without the flag that allows it to be a peer's.
    TRUE(cuIpcOpenMemHandle(&address, same, 0) != CUDA_SUCCESS);
    CHECK(cudaIpcOpenMemHandle((void **)&p, handle, cudaIpcMemLazyEnablePeerAccess));
    add<<<1, 1>>>(p, 30);
    CHECK(cudaMemcpy(&got, p, 4, cudaMemcpyDeviceToHost));
    EXPECT(got == 42, "%d", got);
    CHECK(cudaIpcCloseMemHandle(p));
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 2) return other(argv[1]);
    int devices = 0, twelve = 12, got = 0, *p;
    CHECK(cudaGetDeviceCount(&devices));
    TRUE(devices >= 2);
    CHECK(cudaSetDevice(1));
    CHECK(cudaMalloc(&p, 4000));
    CHECK(cudaMemcpy(p, &twelve, 4, cudaMemcpyHostToDevice));
    cudaIpcMemHandle_t handle;
    CHECK(cudaIpcGetMemHandle(&handle, p));
    std::string text;
    for (size_t i = 0; i < sizeof handle; i++) {
        char two[3];
        snprintf(two, sizeof two, "%02x", reinterpret_cast<unsigned char *>(&handle)[i]);
        text += two;
    }
    const pid_t child = fork();
    if (child == 0) {
        execl("/proc/self/exe", argv[0], text.c_str(), nullptr);
        _exit(9);
    }
    int status = 1;
    TRUE(waitpid(child, &status, 0) == child && status == 0);
    CHECK(cudaMemcpy(&got, p, 4, cudaMemcpyDeviceToHost));
    EXPECT(got == 42, "%d", got);
    CHECK(cudaFree(p));
    return right();
}
