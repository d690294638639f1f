# SPDX-License-Identifier: Apache-2.0
"""Calls that a driver refuses at once: without a current context, with null, with an object of
another kind. Prints "right"."""
import ctypes as c

cuda = c.CDLL('libcuda.so.1')
INVALID_VALUE, INVALID_CONTEXT = 1, 201
word, size, null, number = c.c_uint64, c.c_size_t, c.c_void_p(), c.c_uint


def check(want, name, *arguments):
    got = getattr(cuda, name)(*arguments)
    assert got == want, '%s: %d, not %d' % (name, got, want)


def room(n=64):
    return c.create_string_buffer(n)


check(0, 'cuInit', 0)
# Nothing is current.
for name, arguments in {
    'cuStreamCreate': (room(), number(1)),
    'cuStreamCreateWithPriority': (room(), number(1), 0),
    'cuEventCreate': (room(), number(0)),
    'cuMemFree_v2': (word(0),),
    'cuMemFreeAsync': (word(0), null),
    'cuMemsetD8_v2': (word(0), c.c_ubyte(0), size(0)),
    'cuMemsetD32Async': (word(0), number(0), size(0), null),
    'cuMemsetD2D16_v2': (word(0), size(0), c.c_ushort(0), size(0), size(0)),
    'cuMemcpy': (word(0), word(0), size(0)),
    'cuMemcpyAsync': (word(0), word(0), size(0), null),
    'cuMemcpyDtoD_v2': (word(0), word(0), size(0)),
    'cuMemcpyHtoD_v2': (word(0), room(), size(0)),
    'cuMemcpyDtoH_v2': (room(), word(0), size(0)),
    'cuMemcpyPeer': (word(0), null, word(0), null, size(0)),
    'cuMemcpyPeerAsync': (word(0), null, word(0), null, size(0), null),
    'cuStreamWaitValue32_v2': (null, word(0), number(0), number(0)),
    'cuStreamWriteValue64_v2': (null, word(0), word(0), number(0)),
    'cuCtxSetLimit': (0, size(1024)),
    'cuCtxSetFlags': (number(0),),
    'cuCtxResetPersistingL2Cache': (),
    'cuCtxSynchronize': (),
    'cuMemAlloc_v2': (room(), size(16)),
    'cuMemAllocAsync': (room(), size(16), c.c_void_p(2)),
    'cuStreamSynchronize': (c.c_void_p(2),),
    'cuStreamQuery': (c.c_void_p(2),),
    'cuMemGetInfo_v2': (room(), room()),
}.items():
    check(INVALID_CONTEXT, name, *arguments)

context, device = c.c_void_p(), word()
check(0, 'cuDevicePrimaryCtxRetain', c.byref(context), 0)
check(0, 'cuCtxSetCurrent', context)
check(0, 'cuMemAlloc_v2', c.byref(device), size(4096))
check(INVALID_VALUE, 'cuMemcpy', word(0), device, size(1))
check(INVALID_VALUE, 'cuMemcpy', device, word(0), size(1))
check(INVALID_VALUE, 'cuMemcpyAsync', word(0), word(0), size(1), null)
check(INVALID_CONTEXT, 'cuMemcpyPeer', device, null, device, null, size(1))
check(INVALID_CONTEXT, 'cuMemcpyPeerAsync', device, context, device, null, size(0), null)
check(
    INVALID_VALUE,
    'cuMemcpyPeerAsync',
    word(device.value + 1),
    context,
    device,
    context,
    size(4096),
    null,
)
check(0, 'cuMemcpyPeerAsync', word(device.value + 64), context, device, context, size(64), null)
check(INVALID_VALUE, 'cuCtxSetLimit', 99, size(1))
check(INVALID_VALUE, 'cuDevicePrimaryCtxGetState', 0, null, null)
check(INVALID_VALUE, 'cuDeviceGetPCIBusId', room(), 12, 0)
check(0, 'cuDeviceGetPCIBusId', room(), 13, 0)
attribute, where = (c.c_int * 1)(2), (c.c_void_p * 1)()
check(INVALID_VALUE, 'cuPointerGetAttributes', number(1), attribute, where, device)
check(INVALID_VALUE, 'cuPointerGetAttributes', number(0), attribute, where, device)
# What was refused has left nothing behind.
check(0, 'cuCtxSynchronize')
check(0, 'cuMemFree_v2', device)
print('right')
