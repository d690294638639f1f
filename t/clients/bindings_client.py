# SPDX-License-Identifier: Apache-2.0
"""cuda-bindings: the driver API and NVRTC from Python."""
import ctypes
import hashlib
import numpy as np
from cuda.bindings import driver, nvrtc


def ok(result, *values):
    assert int(result) == 0, result
    return values[0] if len(values) == 1 else values


source = br'''
extern "C" __global__ void mix(float a, const float *x, float *y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = a * x[i] + __sinf(y[i]);
}
'''
ok(*driver.cuInit(0))
device = ok(*driver.cuDeviceGet(0))
context = ok(*driver.cuDevicePrimaryCtxRetain(device))
ok(*driver.cuCtxSetCurrent(context))
major = ok(
    *driver.cuDeviceGetAttribute(
        driver.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device
    )
)
minor = ok(
    *driver.cuDeviceGetAttribute(
        driver.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device
    )
)
program = ok(*nvrtc.nvrtcCreateProgram(source, b'mix.cu', 0, [], []))
ok(*nvrtc.nvrtcCompileProgram(program, 1, [f'--gpu-architecture=compute_{major}{minor}'.encode()]))
ptx = b' ' * ok(*nvrtc.nvrtcGetPTXSize(program))
ok(*nvrtc.nvrtcGetPTX(program, ptx))
module = ok(*driver.cuModuleLoadData(np.char.array(ptx).ctypes.data))
kernel = ok(*driver.cuModuleGetFunction(module, b'mix'))
n = 5000
x = np.arange(n, dtype=np.float32)
y = np.linspace(0, 1, n, dtype=np.float32)
dx, dy = ok(*driver.cuMemAlloc(x.nbytes)), ok(*driver.cuMemAlloc(y.nbytes))
stream = ok(*driver.cuStreamCreate(0))
ok(*driver.cuMemcpyHtoDAsync(dx, x.ctypes.data, x.nbytes, stream))
ok(*driver.cuMemcpyHtoDAsync(dy, y.ctypes.data, y.nbytes, stream))
args = ((3.5, dx, dy, n), (ctypes.c_float, None, None, ctypes.c_int))
ok(*driver.cuLaunchKernel(kernel, (n + 255) // 256, 1, 1, 256, 1, 1, 0, stream, args, 0))
ok(*driver.cuMemcpyDtoHAsync(y.ctypes.data, dy, y.nbytes, stream))
ok(*driver.cuStreamSynchronize(stream))
assert np.allclose(y, 3.5 * x + np.sin(np.linspace(0, 1, n, dtype=np.float32)), atol=1e-4)
error = driver.cuMemFree(12345)[0]
assert error == driver.CUresult.CUDA_ERROR_INVALID_VALUE, error
assert ok(*driver.cuGetErrorName(error)) == b'CUDA_ERROR_INVALID_VALUE'
ok(*driver.cuMemFree(dx)), ok(*driver.cuMemFree(dy)), ok(*driver.cuModuleUnload(module)), ok(
    *driver.cuStreamDestroy(stream)
)
print(ok(*driver.cuDriverGetVersion()), hashlib.sha256(y.tobytes()).hexdigest())
