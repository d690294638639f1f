// SPDX-License-Identifier: Apache-2.0
// Processes share device memory by descriptors (cuMemExportToShareableHandle), of every pair of
// devices, and with the descriptor passed as PyTorch (pidfd_getfd) and NCCL (SCM_RIGHTS) do. The
// program starts itself for the second process.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <vector>

#include "check.h"

constexpr auto kFd = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;

__global__ void add(int *p, size_t n, int v)
{
    for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        p[i] += v;
}

static CUmemAllocationProp on(int device)
{
    CUmemAllocationProp p{};
    p.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    p.location = {CU_MEM_LOCATION_TYPE_DEVICE, device};
    p.requestedHandleTypes = kFd;
    return p;
}

static size_t page()
{
    size_t bytes = 0;
    const CUmemAllocationProp p = on(0);
    DRIVER(cuMemGetAllocationGranularity(&bytes, &p, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    return bytes;
}

static int *mapped(CUmemGenericAllocationHandle memory, size_t bytes, int device)
{
    CUdeviceptr at = 0;
    CUmemAccessDesc access{};
    access.location = {CU_MEM_LOCATION_TYPE_DEVICE, device};
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    DRIVER(cuMemAddressReserve(&at, bytes, 0, 0, 0));
    DRIVER(cuMemMap(at, bytes, 0, memory, 0));
    DRIVER(cuMemSetAccess(at, bytes, &access, 1));
    return reinterpret_cast<int *>(at);
}

static void unmapped(int *p, size_t bytes)
{
    DRIVER(cuMemUnmap(reinterpret_cast<CUdeviceptr>(p), bytes));
    DRIVER(cuMemAddressFree(reinterpret_cast<CUdeviceptr>(p), bytes));
}

static CUresult imported(CUmemGenericAllocationHandle *memory, int fd)
{
    return cuMemImportFromShareableHandle(memory, reinterpret_cast<void *>(intptr_t{fd}), kFd);
}

static void send_fd(int to, int fd)
{
    char c = 0, room[CMSG_SPACE(sizeof fd)] = {};
    iovec content{&c, 1};
    msghdr m{};
    m.msg_iov = &content, m.msg_iovlen = 1, m.msg_control = room, m.msg_controllen = sizeof room;
    cmsghdr *rights = CMSG_FIRSTHDR(&m);
    rights->cmsg_level = SOL_SOCKET, rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof fd);
    memcpy(CMSG_DATA(rights), &fd, sizeof fd);
    TRUE(sendmsg(to, &m, 0) == 1);
}

static int receive_fd(int from)
{
    int fd = -1;
    char c = 0, room[CMSG_SPACE(sizeof fd)] = {};
    iovec content{&c, 1};
    msghdr m{};
    m.msg_iov = &content, m.msg_iovlen = 1, m.msg_control = room, m.msg_controllen = sizeof room;
    TRUE(recvmsg(from, &m, 0) == 1 && CMSG_FIRSTHDR(&m));
    memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof fd);
    return fd;
}

struct Message {
    int device, fd, value;
    size_t bytes;
    pid_t pid;
};

// Adds 30 to everything, with each device as the current one, once.
static int other(int socket)
{
    Message m;
    int devices = 0;
    CHECK(cudaGetDeviceCount(&devices));
    while (read(socket, &m, sizeof m) == sizeof m) {
        int fd;
        if (m.fd < 0) {
            fd = receive_fd(socket);
        } else {
            const int process = static_cast<int>(syscall(SYS_pidfd_open, m.pid, 0));
            fd = static_cast<int>(syscall(SYS_pidfd_getfd, process, m.fd, 0));
            close(process);
        }
        TRUE(fd >= 0);
        for (int current = 0; current < devices; current++) {
            CHECK(cudaSetDevice(current));
            CHECK(cudaFree(nullptr));
            CUmemGenericAllocationHandle memory = 0;
            DRIVER(imported(&memory, fd));
            CUmemAllocationProp p{};
            DRIVER(cuMemGetAllocationPropertiesFromHandle(&p, memory));
            EXPECT(p.location.id == m.device, "%d", p.location.id);
            int *at = mapped(memory, m.bytes, current), got = 0;
            DRIVER(cuMemRelease(memory));
            CHECK(cudaMemcpy(&got, at + m.bytes / sizeof *at - 1, sizeof got, cudaMemcpyDefault));
            EXPECT(got == m.value + 30 * current, "%d", got);
            add<<<4, 64>>>(at, m.bytes / sizeof *at, 30);
            CHECK(cudaDeviceSynchronize());
            unmapped(at, m.bytes);
        }
        close(fd);
        TRUE(write(socket, &m, 1) == 1);
    }
    return 0;
}

static void wait_for_other(int socket)
{
    char c;
    TRUE(read(socket, &c, 1) == 1);
}

// `gone`: this process has given the memory up before the other one asks for it.
static void shares(int socket, int device, int devices, bool by_pid, bool gone)
{
    CHECK(cudaSetDevice(device));
    const size_t bytes = 2 * page();
    CUmemGenericAllocationHandle memory = 0;
    const CUmemAllocationProp p = on(device);
    DRIVER(cuMemCreate(&memory, bytes, &p, 0));
    int *at = mapped(memory, bytes, device), fd = -1, got = 0;
    CHECK(cudaMemset(at, 0, bytes));
    add<<<4, 64>>>(at, bytes / sizeof *at, 12);
    CHECK(cudaDeviceSynchronize());
    unsigned long long types = 0;
    DRIVER(cuPointerGetAttribute(&types, CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES,
                                 reinterpret_cast<CUdeviceptr>(at + 1)));
    EXPECT(types == kFd, "%llu", types);
    DRIVER(cuMemExportToShareableHandle(&fd, memory, kFd, 0));
    TRUE(fd >= 0 && (fcntl(fd, F_GETFD) & FD_CLOEXEC));
    if (gone) {
        unmapped(at, bytes);
        DRIVER(cuMemRelease(memory));
        if (by_rgpu()) DRIVER_FAILS(cuMemRelease(memory), CUDA_ERROR_INVALID_VALUE);
    }
    const Message m{device, by_pid ? fd : -1, 12, bytes, getpid()};
    TRUE(write(socket, &m, sizeof m) == sizeof m);
    if (!by_pid) {
        send_fd(socket, fd);
        close(fd);
    }
    wait_for_other(socket);
    if (by_pid) close(fd);
    if (gone) return;
    CHECK(cudaMemcpy(&got, at, sizeof got, cudaMemcpyDefault));
    EXPECT(got == 12 + 30 * devices, "%d", got);
    unmapped(at, bytes);
    DRIVER(cuMemRelease(memory));
}

// Descriptors of the same memory, in one process.
static void in_one_process()
{
    const size_t bytes = page();
    const CUmemAllocationProp p = on(0);
    CUmemGenericAllocationHandle memory = 0, again = 0;
    DRIVER(cuMemCreate(&memory, bytes, &p, 0));
    int first = -1, second = -1, got = 0;
    DRIVER(cuMemExportToShareableHandle(&first, memory, kFd, 0));
    DRIVER(cuMemExportToShareableHandle(&second, memory, kFd, 0));
    TRUE(first != second);
    close(first);
    int *at = mapped(memory, bytes, 0);
    DRIVER(cuMemRelease(memory));
    DRIVER(imported(&again, second));
    int *same = mapped(again, bytes, 0);
    close(second);
    CHECK(cudaMemset(at, 1, bytes));
    CHECK(cudaMemcpy(&got, same, sizeof got, cudaMemcpyDefault));
    EXPECT(got == 0x01010101, "%x", got);
    unmapped(same, bytes);
    DRIVER(cuMemRelease(again));
    CHECK(cudaMemcpy(&got, at, sizeof got, cudaMemcpyDefault));
    unmapped(at, bytes);
}

// Memory whose descriptors are closed is free: more is made, one after the other, than there is.
static void frees_what_is_closed()
{
    size_t before = 0, after = 0, total = 0;
    CHECK(cudaMemGetInfo(&before, &total));
    const size_t piece = (total / 8 + page() - 1) / page() * page();
    const CUmemAllocationProp p = on(0);
    for (int i = 0; i < 24; i++) {
        CUmemGenericAllocationHandle memory = 0;
        int fd = -1;
        DRIVER(cuMemCreate(&memory, piece, &p, 0));
        DRIVER(cuMemExportToShareableHandle(&fd, memory, kFd, 0));
        DRIVER(cuMemRelease(memory));
        const int copy = dup(fd);
        close(fd);
        close(copy);
    }
    CHECK(cudaMemGetInfo(&after, &total));
    // A driver may need some for itself.
    const size_t for_itself = on_softgpu() ? 0 : total / 100;
    EXPECT(before <= after + for_itself, "%zu of %zu", after, before);
}

static void refuses()
{
    const size_t bytes = page();
    CUmemAllocationProp p = on(0);
    CUmemGenericAllocationHandle memory = 0, plain = 0, made = 0;
    int fd = -1, made_up;
    DRIVER(cuMemCreate(&memory, bytes, &p, 0));
    DRIVER(cuMemExportToShareableHandle(&fd, memory, kFd, 0));
    // Not asked for when it was made, no handle at all, in no form.
    p.requestedHandleTypes = CU_MEM_HANDLE_TYPE_NONE;
    DRIVER(cuMemCreate(&plain, bytes, &p, 0));
    REFUSED(cuMemExportToShareableHandle(&made_up, plain, kFd, 0), CUDA_ERROR_INVALID_VALUE);
    DRIVER(cuMemRelease(plain));
    if (by_rgpu())
        DRIVER_FAILS(cuMemExportToShareableHandle(&made_up, plain, kFd, 0),
                     CUDA_ERROR_INVALID_VALUE);
    REFUSED(cuMemExportToShareableHandle(&made_up, memory, CU_MEM_HANDLE_TYPE_NONE, 0),
            CUDA_ERROR_INVALID_VALUE);
    REFUSED(cuMemExportToShareableHandle(&made_up, memory, kFd, 1), CUDA_ERROR_INVALID_VALUE);
    REFUSED(cuMemExportToShareableHandle(nullptr, memory, kFd, 0), CUDA_ERROR_INVALID_VALUE);
    // Descriptors of other things, and what looks like a descriptor of memory.
    int ends[2];
    TRUE(pipe(ends) == 0);
    REFUSED(imported(&made, ends[0]), CUDA_ERROR_INVALID_VALUE);
    REFUSED(imported(&made, -1), CUDA_ERROR_INVALID_VALUE);
    REFUSED(imported(&made, 9999), CUDA_ERROR_INVALID_VALUE);
    std::vector<char> content(4096);
    const ssize_t n = pread(fd, content.data(), content.size(), 0);
    for (int change = -1; change < n && n < 4096; change++) {
        made_up = memfd_create("rgpu memory", MFD_ALLOW_SEALING);
        std::vector<char> forged(content.begin(), content.begin() + n);
        if (change >= 0) forged[static_cast<size_t>(change)] ^= 4;
        TRUE(write(made_up, forged.data(), forged.size()) == n);
        // As it is: not sealed.
        if (change >= 0)
            fcntl(made_up, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE);
        REFUSED(imported(&made, made_up), CUDA_ERROR_INVALID_VALUE);
        close(made_up);
    }
    close(fd);
    DRIVER(cuMemRelease(memory));
}

// Leaves what a descriptor holds in a file, and keeps the memory until its input ends.
static int hold(const char *path)
{
    const CUmemAllocationProp p = on(0);
    CUmemGenericAllocationHandle memory = 0;
    int fd = -1;
    char content[512], c;
    CHECK(cudaFree(nullptr));
    DRIVER(cuMemCreate(&memory, page(), &p, 0));
    DRIVER(cuMemExportToShareableHandle(&fd, memory, kFd, 0));
    const ssize_t n = pread(fd, content, sizeof content, 0);
    FILE *out = fopen((std::string(path) + "~").c_str(), "w");
    TRUE(out && fwrite(content, 1, static_cast<size_t>(n), out) == static_cast<size_t>(n));
    TRUE(fclose(out) == 0 && rename((std::string(path) + "~").c_str(), path) == 0);
    TRUE(read(0, &c, 1) == 0);
    return right();
}

// Makes a descriptor of such a file, and says what the driver thinks of it.
static int use(const char *path)
{
    char content[512];
    CUmemGenericAllocationHandle memory = 0;
    CHECK(cudaFree(nullptr));
    FILE *in = fopen(path, "r");
    TRUE(in);
    const size_t n = fread(content, 1, sizeof content, in);
    const int fd = memfd_create("rgpu memory", MFD_ALLOW_SEALING);
    TRUE(write(fd, content, n) == static_cast<ssize_t>(n));
    fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE);
    printf("%d\n", imported(&memory, fd));
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 3) return (argv[1] == std::string("hold") ? hold : use)(argv[2]);
    if (argc == 2) return other(atoi(argv[1]));
    int ends[2], devices = 0, supported = 0;
    TRUE(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    const pid_t child = fork();
    if (child == 0) {
        close(ends[0]);
        execl("/proc/self/exe", argv[0], std::to_string(ends[1]).c_str(), nullptr);
        _exit(9);
    }
    close(ends[1]);
    CHECK(cudaGetDeviceCount(&devices));
    for (int device = 0; device < devices; device++) {
        DRIVER(cuDeviceGetAttribute(
            &supported, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, device));
        TRUE(supported);
        for (const bool by_pid : {false, true})
            for (const bool gone : {false, true}) shares(ends[0], device, devices, by_pid, gone);
    }
    close(ends[0]);
    int status = 0;
    TRUE(waitpid(child, &status, 0) == child && status == 0);
    CHECK(cudaSetDevice(0));
    in_one_process();
    frees_what_is_closed();
    refuses();
    return right();
}
