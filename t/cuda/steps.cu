// SPDX-License-Identifier: Apache-2.0
// Computes in steps on all its GPUs, and waits for a line between two of them: what is restarted
// around it.
//
//   steps FIFO     prints "step N on M GPUs" after each of three steps, reads a line of FIFO before
//   the second
//                  and the third, and prints "good" when the results are right.
#include <cstdio>
#include <vector>

#include <cuda_runtime.h>

__global__ void triple(unsigned *words)
{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    words[i] = words[i] * 3 + i;
}

static bool good(cudaError_t status, const char *what)
{
    if (status != cudaSuccess) fprintf(stderr, "%s: %s\n", what, cudaGetErrorName(status));
    return status == cudaSuccess;
}

int main(int argc, char **argv)
{
    constexpr unsigned kWords = 4096;
    int count = 0;
    if (argc != 2 || !good(cudaGetDeviceCount(&count), "cudaGetDeviceCount")) return 2;
    std::vector<unsigned *> memory(static_cast<size_t>(count));
    for (int d = 0; d < count; d++)
        if (!good(cudaSetDevice(d), "cudaSetDevice") ||
            !good(cudaMalloc(&memory[d], kWords * 4), "cudaMalloc") ||
            !good(cudaMemset(memory[d], 0, kWords * 4), "cudaMemset"))
            return 3;
    FILE *lines = nullptr;
    for (int step = 1; step <= 3; step++) {
        for (int d = 0; d < count; d++) {
            cudaSetDevice(d);
            triple<<<kWords / 256, 256>>>(memory[d]);
            if (!good(cudaDeviceSynchronize(), "cudaDeviceSynchronize")) return 3;
        }
        printf("step %d on %d GPUs\n", step, count);
        fflush(stdout);
        char line[16];
        if (!lines && !(lines = fopen(argv[1], "r"))) return 2;
        if (step < 3 && !fgets(line, sizeof line, lines)) return 2;
    }
    for (int d = 0; d < count; d++) {
        std::vector<unsigned> words(kWords);
        cudaSetDevice(d);
        if (!good(cudaMemcpy(words.data(), memory[d], kWords * 4, cudaMemcpyDeviceToHost),
                  "cudaMemcpy"))
            return 3;
        for (unsigned i = 0; i < kWords; i++)
            if (words[i] != i * 13) return printf("word %u of GPU %d is %u\n", i, d, words[i]), 4;
    }
    puts("good");
    return 0;
}
