# SPDX-License-Identifier: Apache-2.0
"""cuMemcpy3DBatchAsync between the program's memory, device memory and an array; prints "right"
when all came through."""
import ctypes as c
import os

cuda = c.CDLL('libcuda.so.1')
POINTER, ARRAY, STREAM_ORDER = 1, 2, 1
FLOAT = 0x20


class Location(c.Structure):
    _fields_ = [('type', c.c_int), ('id', c.c_int)]


class Ptr(c.Structure):
    _fields_ = [('ptr', c.c_uint64), ('row', c.c_size_t), ('layer', c.c_size_t), ('hint', Location)]


class InArray(c.Structure):
    _fields_ = [('array', c.c_void_p), ('x', c.c_size_t), ('y', c.c_size_t), ('z', c.c_size_t)]


class Where(c.Union):
    _fields_ = [('ptr', Ptr), ('array', InArray)]


class Operand(c.Structure):
    _fields_ = [('type', c.c_int), ('op', Where)]


class Copy(c.Structure):
    _fields_ = [
        ('src', Operand),
        ('dst', Operand),
        ('width', c.c_size_t),
        ('height', c.c_size_t),
        ('depth', c.c_size_t),
        ('order', c.c_int),
        ('flags', c.c_uint),
    ]


class ArrayDescriptor(c.Structure):
    _fields_ = [
        ('width', c.c_size_t),
        ('height', c.c_size_t),
        ('depth', c.c_size_t),
        ('format', c.c_int),
        ('channels', c.c_uint),
        ('flags', c.c_uint),
    ]


def check(result, want=0):
    assert result == want, (result, want)


def at(address, row=0, layer=0):
    return Operand(POINTER, Where(ptr=Ptr(address, row, layer)))


def inside(array, x=0, y=0, z=0):
    return Operand(ARRAY, Where(array=InArray(array, x, y, z)))


def copy(src, dst, width, height, depth=1):
    return Copy(src, dst, width, height, depth, STREAM_ORDER, 0)


context, stream, device, array = c.c_void_p(), c.c_void_p(), c.c_uint64(), c.c_void_p()
check(cuda.cuInit(0))
check(cuda.cuDevicePrimaryCtxRetain(c.byref(context), 0))
check(cuda.cuCtxSetCurrent(context))
check(cuda.cuStreamCreate(c.byref(stream), 1))
check(cuda.cuMemAlloc_v2(c.byref(device), c.c_size_t(4096)))
described = ArrayDescriptor(8, 4, 0, FLOAT, 2, 0)  # elements of 8 bytes
check(cuda.cuArray3DCreate_v2(c.byref(array), c.byref(described)))


def batch(*copies, want=0):
    all_of_them = (Copy * len(copies))(*copies)
    check(
        cuda.cuMemcpy3DBatchAsync_v2(
            c.c_size_t(len(copies)), all_of_them, c.c_ulonglong(0), stream
        ),
        want,
    )
    check(cuda.cuStreamSynchronize(stream))


source = (c.c_ubyte * 4096)(*os.urandom(4096))
back, rows, out = (c.c_ubyte * 4096)(), (c.c_ubyte * 4096)(), (c.c_ubyte * 256)()
address = c.addressof
# Rows of 10 bytes that lie 64 apart, in two layers of 5 rows, packed on the device; the array's 8 x
# 4 elements as they are.
batch(
    copy(at(address(source), 64, 5), at(device.value), 10, 3, 2),
    copy(at(address(source)), inside(array), 8, 4),
)
batch(
    copy(at(device.value), at(address(back)), 60, 1),
    copy(at(device.value), at(address(rows), 32), 10, 6),
    copy(inside(array, 2, 1), at(address(out), 6), 5, 3),
)
packed = b''.join(
    bytes(source[64 * (5 * z + y) : 64 * (5 * z + y) + 10]) for z in range(2) for y in range(3)
)
assert bytes(back[:60]) == packed and not any(back[60:])
assert all(
    bytes(rows[32 * y : 32 * y + 10]) == packed[10 * y : 10 * y + 10]
    and not any(rows[32 * y + 10 : 32 * y + 32])
    for y in range(6)
)
for y in range(3):
    begin = 8 * (8 * (1 + y) + 2)
    assert bytes(out[48 * y : 48 * y + 40]) == bytes(source[begin : begin + 40]), y
batch(
    copy(at(device.value, 5), at(address(back)), 10, 1), want=1
)  # a row that is longer than it says
batch(copy(at(device.value), at(address(back)), 10, 0), want=1)
print('right')
