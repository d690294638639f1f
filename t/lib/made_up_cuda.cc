// SPDX-License-Identifier: Apache-2.0
// A driver that is made up: version 12.8, no GPU.
extern "C" {
int cuInit(unsigned) { return 0; }
int cuDriverGetVersion(int *version)
{
    *version = 12080;
    return 0;
}
int cuDeviceGetCount(int *count)
{
    *count = 0;
    return 0;
}
}
