// SPDX-License-Identifier: Apache-2.0
// An instruction that the software GPU does not know (NCCL has such, for switches that are not
// there) does no harm in a branch that is not taken, and ends the kernel that comes to it.
#include "check.h"

__global__ void reduce(float *p, bool by_switch)
{
    if (by_switch)
        asm volatile("multimem.red.relaxed.sys.global.add.f32 [%0], %1;" ::"l"(p), "f"(1.0f)
                     : "memory");
    else
        atomicAdd(p, 1.0f);
}

int main()
{
    float *p, got = 0;
    CHECK(cudaMalloc(&p, 4));
    CHECK(cudaMemset(p, 0, 4));
    reduce<<<2, 32>>>(p, false);
    CHECK(cudaMemcpy(&got, p, 4, cudaMemcpyDeviceToHost));
    EXPECT(got == 64, "%f", got);
    reduce<<<1, 32>>>(p, true);
    FAILS(cudaDeviceSynchronize(), cudaErrorIllegalInstruction);
    return right();
}
