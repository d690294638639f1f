# SPDX-License-Identifier: Apache-2.0
"""cuda-core: devices, streams, programs, launches and buffers as objects."""
import hashlib
import numpy as np
from cuda.core import Device, LaunchConfig, Program, ProgramOptions, launch

source = '''
template <typename T> __global__ void scale(T *x, T by, size_t n)
{
    for (size_t i = threadIdx.x + blockIdx.x * blockDim.x; i < n; i += gridDim.x * blockDim.x)
        x[i] = x[i] * by + T(i % 7);
}
'''
device = Device()
device.set_current()
stream = device.create_stream()
options = ProgramOptions(std='c++17', arch='sm_%d%d' % tuple(device.compute_capability))
module = Program(
    source,
    code_type='c++',
    options=ProgramOptions(std='c++17', arch='compute_%d%d' % tuple(device.compute_capability)),
).compile('ptx', name_expressions=('scale<float>', 'scale<double>'))
digest = hashlib.sha256()
for name, kind in (('scale<float>', np.float32), ('scale<double>', np.float64)):
    n = 3000
    host = np.arange(n, dtype=kind) / 3
    pinned = host.copy()
    buffer = device.allocate(host.nbytes, stream=stream)
    from cuda.bindings import driver

    assert (
        int(
            driver.cuMemcpyHtoDAsync(
                int(buffer.handle), pinned.ctypes.data, host.nbytes, int(stream.handle)
            )[0]
        )
        == 0
    )
    launch(
        stream,
        LaunchConfig(grid=8, block=128),
        module.get_kernel(name),
        buffer,
        kind(1.5),
        np.uint64(n),
    )
    event = stream.record()
    assert (
        int(
            driver.cuMemcpyDtoHAsync(
                pinned.ctypes.data, int(buffer.handle), host.nbytes, int(stream.handle)
            )[0]
        )
        == 0
    )
    stream.sync()
    assert event.is_done
    assert np.allclose(pinned, host * kind(1.5) + np.arange(n) % 7)
    digest.update(pinned.tobytes())
    buffer.close(stream)
print(device.name, digest.hexdigest())
