// SPDX-License-Identifier: Apache-2.0
// Arrays of one, two and three dimensions, and copies of boxes between them, pitched memory and the
// host.
#include "check.h"

int main()
{
    const int w = 37, h = 11, d = 5;
    std::vector<float> in(w * h * d), out(w * h * d, -1.0f);
    for (size_t i = 0; i < in.size(); i++) in[i] = (float)i;
    const cudaChannelFormatDesc one = cudaCreateChannelDesc<float>();

    cudaArray_t plane;
    CHECK(cudaMallocArray(&plane, &one, w, h));
    CHECK(cudaMemcpy2DToArray(plane, 0, 0, in.data(), w * 4, w * 4, h, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy2DFromArray(out.data(), w * 4, plane, 0, 0, w * 4, h, cudaMemcpyDeviceToHost));
    for (int i = 0; i < w * h; i++) TRUE(out[i] == in[i]);
    // A part of it: three texels of two rows, from column 5 and row 3.
    std::vector<float> part(6, -1.0f);
    CHECK(cudaMemcpy2DFromArray(part.data(), 12, plane, 20, 3, 12, 2, cudaMemcpyDeviceToHost));
    for (int y = 0; y < 2; y++)
        for (int x = 0; x < 3; x++) TRUE(part[3 * y + x] == in[(y + 3) * w + x + 5]);
    FAILS(cudaMemcpy2DFromArray(part.data(), 12, plane, 4 * (w - 2), 3, 12, 2,
                                cudaMemcpyDeviceToHost),
          cudaErrorInvalidValue);
    FAILS(cudaMemcpy2DFromArray(part.data(), 12, plane, 0, h - 1, 12, 2, cudaMemcpyDeviceToHost),
          cudaErrorInvalidValue);

    cudaArray_t box;
    CHECK(cudaMalloc3DArray(&box, &one, make_cudaExtent(w, h, d)));
    cudaMemcpy3DParms p = {};
    p.srcPtr = make_cudaPitchedPtr(in.data(), w * 4, w, h);
    p.dstArray = box;
    p.extent = make_cudaExtent(w, h, d);
    p.kind = cudaMemcpyHostToDevice;
    CHECK(cudaMemcpy3D(&p));
    cudaPitchedPtr pitched;
    CHECK(cudaMalloc3D(&pitched, make_cudaExtent(w * 4, h, d)));
    p = {};
    p.srcArray = box;
    p.dstPtr = pitched;
    p.extent = make_cudaExtent(w, h, d);
    p.kind = cudaMemcpyDeviceToDevice;
    CHECK(cudaMemcpy3D(&p));
    p = {};
    p.srcPtr = pitched;
    p.dstPtr = make_cudaPitchedPtr(out.data(), w * 4, w, h);
    p.extent = make_cudaExtent(w * 4, h, d);
    p.kind = cudaMemcpyDeviceToHost;
    CHECK(cudaMemcpy3DAsync(&p, nullptr));
    CHECK(cudaDeviceSynchronize());
    TRUE(out == in);

    cudaChannelFormatDesc format;
    cudaExtent extent;
    unsigned flags;
    CHECK(cudaArrayGetInfo(&format, &extent, &flags, box));
    TRUE(format.x == 32 && format.f == cudaChannelFormatKindFloat && extent.width == w &&
         extent.height == h && extent.depth == d);
    size_t before, after, total;
    CHECK(cudaMemGetInfo(&before, &total));
    cudaArray_t big;
    CHECK(cudaMallocArray(&big, &one, 4096, 4096));
    CHECK(cudaMemGetInfo(&after, &total));
    TRUE(before - after >= 4096u * 4096 * 4);
    CHECK(cudaFreeArray(big));
    CHECK(cudaMemGetInfo(&after, &total));
    TRUE(before == after);
    CHECK(cudaFreeArray(plane));
    CHECK(cudaFreeArray(box));
    CHECK(cudaFree(pitched.ptr));
    return right();
}
