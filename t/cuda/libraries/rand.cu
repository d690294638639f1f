// SPDX-License-Identifier: Apache-2.0
// cuRAND: its generators on the device and on the host give the same numbers. Run with uniform or
// normal.
#include "../check.h"
#include <curand.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

int main(int argc, char **argv)
{
    constexpr int n = 10000;
    const bool normal = argc > 1 && !strcmp(argv[1], "normal");
    for (auto kind : {CURAND_RNG_PSEUDO_XORWOW, CURAND_RNG_PSEUDO_PHILOX4_32_10,
                      CURAND_RNG_PSEUDO_MRG32K3A, CURAND_RNG_QUASI_SOBOL32}) {
        curandGenerator_t device, host;
        CHECK(curandCreateGenerator(&device, kind));
        CHECK(curandCreateGeneratorHost(&host, kind));
        if (kind != CURAND_RNG_QUASI_SOBOL32) {
            CHECK(curandSetPseudoRandomGeneratorSeed(device, 42));
            CHECK(curandSetPseudoRandomGeneratorSeed(host, 42));
        }
        float *d;
        std::vector<float> got(n), wanted(n);
        CHECK(cudaMalloc(&d, n * sizeof(float)));
        if (normal) {
            CHECK(curandGenerateNormal(device, d, n, 1.0f, 2.0f));
            CHECK(curandGenerateNormal(host, wanted.data(), n, 1.0f, 2.0f));
        } else {
            CHECK(curandGenerateUniform(device, d, n));
            CHECK(curandGenerateUniform(host, wanted.data(), n));
        }
        CHECK(cudaMemcpy(got.data(), d, n * sizeof(float), cudaMemcpyDeviceToHost));
        // Normal numbers go through logarithms and sines, of which each side has its own.
        for (int i = 0; i < n; i++)
            TRUE(normal ? std::fabs(got[i] - wanted[i]) <= 1e-3f * (1 + std::fabs(wanted[i]))
                        : got[i] == wanted[i]);
        CHECK(cudaFree(d));
        CHECK(curandDestroyGenerator(device));
        CHECK(curandDestroyGenerator(host));
    }
    printf("right\n");
}
