#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The kernels of meetings.cu in OpenCL: prints the milliseconds of each on the first CPU device, or
nothing where there is no OpenCL. The shuffle reduction has no counterpart: its figure is 0."""

import ctypes
import sys
import time
from ctypes import byref, c_char_p, c_int, c_size_t, c_uint, c_ulong, c_void_p

SOURCE = b"""
__kernel void tiles(__global const float *a, __global const float *b, __global float *c)
{
    __local float as[16][16], bs[16][16];
    const uint x = get_local_id(0), y = get_local_id(1);
    const uint row = get_group_id(1) * 16 + y, column = get_group_id(0) * 16 + x;
    float sum = 0;
    for (uint t = 0; t < 512; t += 16) {
        as[y][x] = a[row * 512 + t + x];
        bs[y][x] = b[(t + y) * 512 + column];
        barrier(CLK_LOCAL_MEM_FENCE);
        for (uint k = 0; k < 16; k++) sum += as[y][k] * bs[k][x];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    c[row * 512 + column] = sum;
}
__kernel void tree(__global const float *x, __global float *sums)
{
    __local float s[256];
    const uint t = get_local_id(0);
    s[t] = x[get_global_id(0)];
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint k = get_local_size(0) / 2; k > 0; k /= 2) {
        if (t < k) s[t] += s[t + k];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (t == 0) sums[get_group_id(0)] = s[0];
}
__kernel void histogram(__global const uchar *x, __global uint *counts)
{
    __local uint h[256];
    const uint t = get_local_id(0);
    h[t] = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint i = get_global_id(0); i < 4194304; i += get_global_size(0)) atomic_inc(&h[x[i]]);
    barrier(CLK_LOCAL_MEM_FENCE);
    atomic_add(&counts[t], h[t]);
}
"""
COUNT = 4 << 20
CPU = 1 << 1


def main():
    try:
        cl = ctypes.CDLL("libOpenCL.so.1")
    except OSError:
        return
    for name in ("clCreateContext", "clCreateCommandQueue", "clCreateProgramWithSource"):
        getattr(cl, name).restype = c_void_p
    cl.clCreateKernel.restype = cl.clCreateBuffer.restype = c_void_p
    platform, device, error = c_void_p(), c_void_p(), c_int()
    if cl.clGetPlatformIDs(1, byref(platform), None):
        return
    if cl.clGetDeviceIDs(platform, c_ulong(CPU), 1, byref(device), None):
        return
    context = c_void_p(cl.clCreateContext(None, 1, byref(device), None, None, byref(error)))
    queue = c_void_p(cl.clCreateCommandQueue(context, device, c_ulong(0), byref(error)))

    def check(code):
        if code:
            sys.exit(f"OpenCL: error {code}")

    def buffer(size):
        return c_void_p(cl.clCreateBuffer(context, c_ulong(1), c_size_t(size), None, byref(error)))

    text = c_char_p(SOURCE)
    program = c_void_p(cl.clCreateProgramWithSource(context, 1, byref(text), None, byref(error)))
    check(cl.clBuildProgram(program, 0, None, b"", None, None))
    x, out = buffer(COUNT * 4), buffer(COUNT * 4)
    data = (ctypes.c_float * COUNT)(*(i % 7 - 3.0 for i in range(COUNT)))
    check(
        cl.clEnqueueWriteBuffer(queue, x, 1, c_size_t(0), c_size_t(COUNT * 4), data, 0, None, None)
    )

    def median_ms(name, arguments, size, group):
        kernel = c_void_p(cl.clCreateKernel(program, name, byref(error)))
        check(error.value)
        for i, a in enumerate(arguments):
            check(cl.clSetKernelArg(kernel, i, c_size_t(8), byref(a)))
        whole, part = (c_size_t * len(size))(*size), (c_size_t * len(group))(*group)
        times = []
        for _ in range(10):
            start = time.perf_counter()
            check(
                cl.clEnqueueNDRangeKernel(
                    queue, kernel, c_uint(len(size)), None, whole, part, 0, None, None
                )
            )
            check(cl.clFinish(queue))
            times.append((time.perf_counter() - start) * 1e3)
        return sorted(times[1:])[4]

    print(f"{median_ms(b'tiles', (x, x, out), (512, 512), (16, 16)):.3f}")
    print(f"{median_ms(b'tree', (x, out), (COUNT,), (256,)):.3f}")
    print(f"{median_ms(b'histogram', (x, out), (64 * 256,), (256,)):.3f}")
    print("0")


main()
