// SPDX-License-Identifier: Apache-2.0
// What main.cu and part.cu share.
#pragma once

extern __device__ int shared_counter;
extern __constant__ float factor;
__device__ float scale(float x);
using Operation = float (*)(float);
extern __device__ Operation chosen;
void launch_from_part(float *p);
