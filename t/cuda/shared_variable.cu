// SPDX-License-Identifier: Apache-2.0
// __managed__ variables: the program uses them by name, as kernels do. Ends with 0 when every value
// was right.
#include "check.h"

#include <cstdio>

__managed__ int counter = 41;
__managed__ char byte = 'a';
__managed__ float table[5000] = {1.5f, 2.5f};
__managed__ int *list;
__device__ int plain = 7;

__global__ void work(int rounds)
{
    counter += rounds;
    byte++;
    table[1] += plain;
    table[4999] = counter;
    if (list) *list = counter;
}

int main()
{
    // Before any kernel.
    EXPECT(counter == 41 && byte == 'a' && table[0] == 1.5f && table[1] == 2.5f && table[2] == 0,
           "%d %c %g", counter, byte, table[0]);
    counter++;
    work<<<1, 1>>>(8);
    CHECK(cudaDeviceSynchronize());
    EXPECT(counter == 50 && byte == 'b' && table[1] == 9.5f && table[4999] == 50, "%d %c %g",
           counter, byte, table[1]);
    for (int round = 0; round < 5; round++) {
        counter = round;
        CHECK(cudaMallocManaged(&list, sizeof *list));
        *list = -1;
        work<<<1, 1>>>(100);
        CHECK(cudaDeviceSynchronize());
        EXPECT(counter == round + 100 && *list == counter && table[4999] == counter, "%d %d",
               counter, *list);
        CHECK(cudaFree(list));
        list = nullptr;
    }
    cudaPointerAttributes a;
    CHECK(cudaPointerGetAttributes(&a, &counter));
    EXPECT(a.type == cudaMemoryTypeManaged, "%d", a.type);
    int value = 0;
    CHECK(cudaMemcpyFromSymbol(&value, counter, sizeof value));
    EXPECT(value == 104, "%d", value);
    value = 12;
    CHECK(cudaMemcpyToSymbol(counter, &value, sizeof value));
    EXPECT(counter == 12, "%d", counter);
    puts("managed variables are right");
    return 0;
}
