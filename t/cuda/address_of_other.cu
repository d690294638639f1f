// SPDX-License-Identifier: Apache-2.0
// Two jobs on one GPU host: what one holds, the other cannot reach by its address.
//
//   address_of_other hold FILE     fills memory with a pattern, writes its address to FILE, waits
//   until
//                                  FILE.done is there, and checks that the pattern is unharmed
//   address_of_other touch FILE    takes the address out of FILE, and tries to read and write
//   there: by
//                                  copy, by memset, by kernel; each must fail
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <unistd.h>
#include <vector>

#include <cuda_runtime.h>

static const size_t kWords = 4 << 20;  // 16 MiB
static const uint32_t kPattern = 0x5EC2E7A5;

__global__ void fill(uint32_t *words, size_t count, uint32_t value)
{
    for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x)
        words[i] = value;
}

__global__ void fetch(const uint32_t *from, uint32_t *to) { *to = *from; }

static void check(cudaError_t status, const char *what)
{
    if (status != cudaSuccess) {
        fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(status));
        exit(2);
    }
}

static bool wait_for_file(const std::string &path)
{
    for (int i = 0; i < 1200; ++i) {
        if (access(path.c_str(), F_OK) == 0) return true;
        usleep(50 * 1000);
    }
    return false;
}

static int hold(const std::string &file)
{
    uint32_t *words;
    check(cudaMalloc(&words, kWords * sizeof *words), "cudaMalloc");
    fill<<<64, 128>>>(words, kWords, kPattern);
    check(cudaDeviceSynchronize(), "fill");
    FILE *out = fopen((file + ".new").c_str(), "w");
    fprintf(out, "%p\n", static_cast<void *>(words + kWords / 2));
    fclose(out);
    rename((file + ".new").c_str(), file.c_str());
    if (!wait_for_file(file + ".done")) {
        fprintf(stderr, "%s.done did not appear\n", file.c_str());
        return 2;
    }
    std::vector<uint32_t> back(kWords);
    check(cudaMemcpy(back.data(), words, kWords * sizeof *words, cudaMemcpyDeviceToHost),
          "copy back");
    for (uint32_t word : back)
        if (word != kPattern) {
            printf("the pattern was changed to %08x\n", word);
            return 1;
        }
    printf("unharmed\n");
    return 0;
}

// Fresh memory of this job does not hold what another job wrote.
static bool fresh_memory_is_clean()
{
    uint32_t *words;
    check(cudaMalloc(&words, kWords * sizeof *words), "cudaMalloc");
    std::vector<uint32_t> back(kWords);
    check(cudaMemcpy(back.data(), words, kWords * sizeof *words, cudaMemcpyDeviceToHost),
          "copy back");
    check(cudaFree(words), "cudaFree");
    for (uint32_t word : back)
        if (word == kPattern) return false;
    return true;
}

static int touch(const std::string &file)
{
    void *address = nullptr;
    FILE *in = wait_for_file(file) ? fopen(file.c_str(), "r") : nullptr;
    if (!in || fscanf(in, "%p", &address) != 1) {
        fprintf(stderr, "no address in %s\n", file.c_str());
        return 2;
    }
    fclose(in);
    bool clean = fresh_memory_is_clean();
    uint32_t got = 0, *own;
    check(cudaMalloc(&own, sizeof *own), "cudaMalloc");
    check(cudaMemset(own, 0, sizeof *own), "cudaMemset");

    cudaError_t copy = cudaMemcpy(&got, address, sizeof got, cudaMemcpyDeviceToHost);
    printf("copy: %s\n", cudaGetErrorName(copy));
    // Asynchronous: what was wrong may be told at the next call that waits.
    cudaError_t set = cudaMemset(address, 0, sizeof got);
    if (set == cudaSuccess) set = cudaDeviceSynchronize();
    printf("memset: %s\n", cudaGetErrorName(set));
    // The last, for it ends the context.
    fetch<<<1, 1>>>(static_cast<const uint32_t *>(address), own);
    cudaError_t kernel = cudaDeviceSynchronize();
    printf("kernel: %s\n", cudaGetErrorName(kernel));
    if (got == kPattern) printf("the other job's memory was read\n");
    if (!clean) printf("fresh memory holds the other job's data\n");
    return copy != cudaSuccess && set != cudaSuccess && kernel != cudaSuccess && got != kPattern &&
                   clean
               ? 0
               : 1;
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "hold") == 0) return hold(argv[2]);
    if (argc == 3 && strcmp(argv[1], "touch") == 0) return touch(argv[2]);
    fprintf(stderr, "usage: %s hold|touch FILE\n", argv[0]);
    return 2;
}
