// SPDX-License-Identifier: Apache-2.0
// Uses a GPU until it is ended, or for at most 300 s: what tests kill.
//
//   steady FILE    makes FILE when the first kernel has run; then launches and waits, again and
//   again.
//                  Ends with 3 and the error's name at the first call that fails.
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <unistd.h>

#include <cuda_runtime.h>

__global__ void add_one(unsigned *words) { words[blockIdx.x * blockDim.x + threadIdx.x] += 1; }

static void check(cudaError_t status, const char *what)
{
    if (status == cudaSuccess) return;
    printf("%s: %s\n", what, cudaGetErrorName(status));
    fflush(stdout);
    exit(3);
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: %s FILE\n", argv[0]);
        return 2;
    }
    unsigned *words;
    check(cudaMalloc(&words, 1024 * sizeof *words), "cudaMalloc");
    check(cudaMemset(words, 0, 1024 * sizeof *words), "cudaMemset");
    time_t end = time(nullptr) + 300;
    for (bool first = true; time(nullptr) < end; first = false) {
        add_one<<<8, 128>>>(words);
        check(cudaGetLastError(), "launch");
        check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
        if (first) fclose(fopen(argv[1], "w"));
        usleep(10 * 1000);
    }
    return 0;
}
