// SPDX-License-Identifier: Apache-2.0
// Pinned and registered host memory that kernels use in place: a kernel and the host talk to each
// other while it runs.
#include "check.h"

__global__ void ping(volatile int *mailbox, int rounds)
{
    for (int i = 1; i <= rounds; i++) {
        while (mailbox[0] != i) {}
        __threadfence_system();
        mailbox[1] = 10 * i;
    }
}

__global__ void square(const int *in, int *out, int n)
{
    for (int i = threadIdx.x; i < n; i += blockDim.x) out[i] = in[i] * in[i];
}

int main()
{
    int *mailbox, *on_device;
    CHECK(cudaHostAlloc(&mailbox, 64, cudaHostAllocMapped | cudaHostAllocPortable));
    memset(mailbox, 0, 64);
    CHECK(cudaHostGetDevicePointer(&on_device, mailbox, 0));
    ping<<<1, 1>>>(on_device, 20);
    volatile int *box = mailbox;
    for (int i = 1; i <= 20; i++) {
        box[0] = i;
        while (box[1] != 10 * i) {}
    }
    CHECK(cudaDeviceSynchronize());
    unsigned flags = 0;
    CHECK(cudaHostGetFlags(&flags, mailbox));
    TRUE(flags & cudaHostAllocMapped && flags & cudaHostAllocPortable);

    std::vector<int> in(5000), out(5000);
    for (int i = 0; i < 5000; i++) in[i] = i - 2500;
    CHECK(cudaHostRegister(in.data(), in.size() * 4, cudaHostRegisterMapped));
    CHECK(cudaHostRegister(out.data(), out.size() * 4, cudaHostRegisterMapped));
    FAILS(cudaHostRegister(out.data(), 4, 0), cudaErrorHostMemoryAlreadyRegistered);
    int *a, *b;
    CHECK(cudaHostGetDevicePointer(&a, in.data(), 0));
    CHECK(cudaHostGetDevicePointer(&b, out.data(), 0));
    square<<<1, 128>>>(a, b, 5000);
    CHECK(cudaDeviceSynchronize());
    for (int i = 0; i < 5000; i++) TRUE(out[i] == (i - 2500) * (i - 2500));
    CHECK(cudaHostUnregister(in.data()));
    CHECK(cudaHostUnregister(out.data()));
    FAILS(cudaHostUnregister(out.data()), cudaErrorHostMemoryNotRegistered);
    FAILS(cudaHostGetDevicePointer(&a, in.data(), 0), cudaErrorInvalidValue);
    CHECK(cudaFreeHost(mailbox));
    return right();
}
