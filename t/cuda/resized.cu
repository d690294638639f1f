// SPDX-License-Identifier: Apache-2.0
// A program whose lease gets another size while it runs. Does what the lines of a FIFO say, and
// prints a line for each.
//
//   resized FIFO
//     take N      takes memory of 1 MiB, again and again, N times at most: "took K"
//     free N      gives the last N back: "freed K"
//     memory      "total T free F device D", MiB: of cuMemGetInfo, and of cuDeviceTotalMem
//     launch      a kernel, and waits for it: "launched"
//     end         ends with 0
//   A call that fails otherwise is printed, and ends it with 3.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include <cuda.h>
#include <cuda_runtime.h>

__global__ void add_one(unsigned *words) { words[threadIdx.x] += 1; }

static void check(int status, const char *what)
{
    if (!status) return;
    printf("%s: %d\n", what, status);
    fflush(stdout);
    exit(3);
}

int main(int argc, char **argv)
{
    std::vector<void *> pieces;
    unsigned *words = nullptr;
    size_t free = 0, total = 0, device = 0;
    char line[64];
    if (argc != 2) return 2;
    check(cudaMalloc(&words, 1024), "cudaMalloc");
    puts("ready");
    fflush(stdout);
    FILE *lines = fopen(argv[1], "r");
    while (lines && fgets(line, sizeof line, lines)) {
        int n = 0, done = 0;
        if (sscanf(line, "take %d", &n) == 1) {
            for (void *piece = nullptr; done < n; done++) {
                const cudaError_t r = cudaMalloc(&piece, 1 << 20);
                if (r == cudaErrorMemoryAllocation) break;
                check(r, "cudaMalloc");
                pieces.push_back(piece);
            }
            cudaGetLastError();
            printf("took %d\n", done);
        } else if (sscanf(line, "free %d", &n) == 1) {
            for (; done < n && !pieces.empty(); done++, pieces.pop_back())
                check(cudaFree(pieces.back()), "cudaFree");
            check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
            printf("freed %d\n", done);
        } else if (!strncmp(line, "memory", 6)) {
            check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
            check(cuDeviceTotalMem(&device, 0), "cuDeviceTotalMem");
            printf("total %zu free %zu device %zu\n", total >> 20, free >> 20, device >> 20);
        } else if (!strncmp(line, "launch", 6)) {
            add_one<<<1, 256>>>(words);
            check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
            puts("launched");
        } else {
            return 0;
        }
        fflush(stdout);
    }
    return 0;
}
