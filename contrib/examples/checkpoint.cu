// SPDX-License-Identifier: Apache-2.0
// Computes in steps, and goes on where it was when Slurm requeues its job.
//
//   checkpoint [STEPS]
//
// With $CHECKPOINT_FILE: begins with what that file holds, and keeps what it has there when it gets SIGTERM, which Slurm sends before
// it takes a job's node away (doc/admin.md). Exit status 0 means that all steps are done and right.

#include <csignal>
#include <string>
#include <unistd.h>
#include <vector>

#include "example.h"

static volatile sig_atomic_t stop = 0;

struct State {
    int step = 0;
    std::vector<unsigned> words;
};

__global__ void next(unsigned *words)
{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    words[i] = words[i] * 1664525u + 1013904223u + i;
}

static bool load(const char *path, State &state)
{
    FILE *file = fopen(path, "rb");
    if (!file)
        return false;
    bool good = fread(&state.step, sizeof state.step, 1, file) == 1 &&
                fread(state.words.data(), sizeof(unsigned), state.words.size(), file) == state.words.size();
    fclose(file);
    return good;
}

// The file is the old one or the new one, never a part.
static bool save(const char *path, const State &state)
{
    std::string fresh = std::string(path) + ".new";
    FILE *file = fopen(fresh.c_str(), "wb");
    if (!file)
        return false;
    bool good = fwrite(&state.step, sizeof state.step, 1, file) == 1 &&
                fwrite(state.words.data(), sizeof(unsigned), state.words.size(), file) == state.words.size();
    return fclose(file) == 0 && good && rename(fresh.c_str(), path) == 0;
}

int main(int argc, char **argv)
{
    const int steps = size_argument(argc, argv, "STEPS", 100, "Computes in steps; with $CHECKPOINT_FILE it can be interrupted.");
    const char *path = getenv("CHECKPOINT_FILE");
    setvbuf(stdout, nullptr, _IOLBF, 0);
    signal(SIGTERM, [](int) { stop = 1; });
    print_device();

    State state{0, std::vector<unsigned>(4096, 0)};
    if (path && load(path, state))
        printf("goes on from step %d\n", state.step);
    unsigned *on_gpu;
    const size_t bytes = state.words.size() * sizeof(unsigned);
    CHECK(cudaMalloc(&on_gpu, bytes));
    CHECK(cudaMemcpy(on_gpu, state.words.data(), bytes, cudaMemcpyHostToDevice));
    puts("computing");
    for (; state.step < steps && !stop; state.step++) {
        next<<<16, 256>>>(on_gpu);
        CHECK(cudaDeviceSynchronize());
        usleep(1000);  // the rest of a step
    }
    CHECK(cudaMemcpy(state.words.data(), on_gpu, bytes, cudaMemcpyDeviceToHost));
    CHECK(cudaFree(on_gpu));
    if (state.step < steps) {
        if (!path || !save(path, state)) {
            printf("interrupted at step %d, and nothing is kept\n", state.step);
            return 1;
        }
        printf("interrupted: step %d is kept in %s\n", state.step, path);
        return 128 + SIGTERM;
    }

    int wrong = 0;
    for (unsigned i = 0; i < state.words.size(); i++) {
        unsigned word = 0;
        for (int n = 0; n < steps; n++)
            word = word * 1664525u + 1013904223u + i;
        wrong += word != state.words[i];
    }
    return verdict(wrong, int(state.words.size()));
}
