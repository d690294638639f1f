# SPDX-License-Identifier: Apache-2.0
"""RMM: buffers of each kind of memory."""
import numpy as np
import rmm

numbers = np.arange(1000, dtype=np.float32)


def there_and_back(resource):
    rmm.mr.set_current_device_resource(resource)
    buffer = rmm.DeviceBuffer.to_device(numbers.tobytes())
    return bool((np.frombuffer(buffer.copy().tobytes(), dtype=np.float32) == numbers).all())


plain = rmm.mr.CudaMemoryResource()
print('plain', there_and_back(plain))
pool = rmm.mr.PoolMemoryResource(plain, initial_pool_size=1 << 26, maximum_pool_size=1 << 28)
print('pool', there_and_back(pool))
print('async', there_and_back(rmm.mr.CudaAsyncMemoryResource()))
print('managed', there_and_back(rmm.mr.ManagedMemoryResource()))
