// SPDX-License-Identifier: Apache-2.0
// A process opens another one's memory and waits for its events, for every pair of the memory's
// device and the one that is current, as NCCL does. The program starts itself for the second
// process.
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

__global__ void add(int *p, int v) { *p += v; }

// What the second process gets.
struct Message {
    int device;
    cudaIpcMemHandle_t memory;
    cudaIpcEventHandle_t written;
};

static std::string as_text(const Message &m)
{
    std::string text;
    for (size_t i = 0; i < sizeof m; i++) {
        char two[3];
        snprintf(two, sizeof two, "%02x", reinterpret_cast<const unsigned char *>(&m)[i]);
        text += two;
    }
    return text;
}

static int other(const char *text)
{
    Message m;
    for (size_t i = 0; i < sizeof m; i++)
        sscanf(text + 2 * i, "%2hhx", reinterpret_cast<unsigned char *>(&m) + i);
    int devices = 0;
    CHECK(cudaGetDeviceCount(&devices));
    for (int current = 0; current < devices; current++) {
        int *p, got = 0;
        CHECK(cudaSetDevice(current));
        CHECK(cudaFree(nullptr));
        CUdeviceptr address;
        CUipcMemHandle same;
        memcpy(&same, &m.memory, sizeof same);
        // Without the flag that allows it to be a peer's.
        if (current == m.device) {
            DRIVER(cuIpcOpenMemHandle(&address, same, 0));
            DRIVER(cuIpcCloseMemHandle(address));
        } else {
            TRUE(cuIpcOpenMemHandle(&address, same, 0) != CUDA_SUCCESS);
        }
        // One that was changed gives nothing, or what it says where that is still in bounds.
        int opened = 0;
        for (char &c : same.reserved) {
            c ^= 0x80;
            if (cuIpcOpenMemHandle(&address, same, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) ==
                CUDA_SUCCESS) {
                DRIVER(cuIpcCloseMemHandle(address));
                opened++;
            }
            c ^= 0x80;
        }
        EXPECT(opened < CU_IPC_HANDLE_SIZE / 2, "%d changed handles opened", opened);
        cudaEvent_t written;
        CHECK(cudaIpcOpenEventHandle(&written, m.written));
        CHECK(cudaIpcOpenMemHandle((void **)&p, m.memory, cudaIpcMemLazyEnablePeerAccess));
        CHECK(cudaStreamWaitEvent(nullptr, written, 0));
        add<<<1, 1>>>(p, 30);
        CHECK(cudaMemcpy(&got, p, 4, cudaMemcpyDeviceToHost));
        EXPECT(got == 12 + 30 * (current + 1), "%d of device %d on %d", got, m.device, current);
        CHECK(cudaIpcCloseMemHandle(p));
        CHECK(cudaEventDestroy(written));
    }
    return 0;
}

static void shares(const char *program, int device, int devices)
{
    int twelve = 12, got = 0, *p;
    CHECK(cudaSetDevice(device));
    CHECK(cudaMalloc(&p, 4000));
    Message m{device, {}, {}};
    cudaEvent_t written;
    CHECK(cudaEventCreateWithFlags(&written, cudaEventInterprocess | cudaEventDisableTiming));
    CHECK(cudaMemcpyAsync(p, &twelve, 4, cudaMemcpyHostToDevice));
    CHECK(cudaEventRecord(written));
    CHECK(cudaIpcGetMemHandle(&m.memory, p));
    CHECK(cudaIpcGetEventHandle(&m.written, written));
    const pid_t child = fork();
    if (child == 0) {
        execl("/proc/self/exe", program, as_text(m).c_str(), nullptr);
        _exit(9);
    }
    int status = 1;
    TRUE(waitpid(child, &status, 0) == child && status == 0);
    CHECK(cudaMemcpy(&got, p, 4, cudaMemcpyDeviceToHost));
    EXPECT(got == 12 + 30 * devices, "%d of device %d", got, device);
    CHECK(cudaFree(p));
    CHECK(cudaEventDestroy(written));
}

int main(int argc, char **argv)
{
    if (argc == 2) return other(argv[1]);
    int devices = 0;
    CHECK(cudaGetDeviceCount(&devices));
    if (devices < 2) return fprintf(stderr, "needs two GPUs\n"), 77;
    for (int device = 0; device < devices; device++) shares(argv[0], device, devices);
    return right();
}
