# SPDX-License-Identifier: Apache-2.0
"""Loads module images through the driver API, for t/t2103-images.t.

images.py STEP...     in one process, in order:
    module SEED BYTES    loads a module of about so many bytes and checks that its kernel writes
                         SEED
    library SEED BYTES   the same with cuLibraryLoadData
    link SEED BYTES      the same through the linker
    bad BYTES            an image that does not compile
"""
import ctypes as c
import sys

cuda = c.CDLL('libcuda.so.1')


def check(result):
    assert result == 0, result


def ptx(seed, size):
    kernel = (
        '''.version 7.0
.target sm_80
.address_size 64
.visible .entry write(.param .u64 to)
{
    .reg .u64 %%a;
    .reg .u32 %%v;
    ld.param.u64 %%a, [to];
    cvta.to.global.u64 %%a, %%a;
    mov.u32 %%v, %d;
    st.global.u32 [%%a], %%v;
    ret;
}
'''
        % seed
    )
    # Words that no compressor and no second image shares.
    word = seed
    while len(kernel) < size:
        word = (word * 6364136223846793005 + 1442695040888963407) % 2**64
        kernel += '// %016x\n' % word
    return kernel.encode() + b'\0'


def run(function, seed):
    memory, value = c.c_uint64(), c.c_uint32()
    check(cuda.cuMemAlloc_v2(c.byref(memory), c.c_size_t(4)))
    params = (c.c_void_p * 1)(c.cast(c.byref(memory), c.c_void_p))
    check(cuda.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, None, params, None))
    check(cuda.cuMemcpyDtoH_v2(c.byref(value), memory, c.c_size_t(4)))
    check(cuda.cuMemFree_v2(memory))
    assert value.value == seed, (value.value, seed)


def module(seed, size):
    load_module(ptx(seed, size), seed)


def load_module(image, seed):
    handle, function = c.c_void_p(), c.c_void_p()
    check(cuda.cuModuleLoadData(c.byref(handle), image))
    check(cuda.cuModuleGetFunction(c.byref(function), handle, b'write'))
    run(function, seed)
    check(cuda.cuModuleUnload(handle))


def library(seed, size):
    handle, kernel = c.c_void_p(), c.c_void_p()
    check(cuda.cuLibraryLoadData(c.byref(handle), ptx(seed, size), None, None, 0, None, None, 0))
    check(cuda.cuLibraryGetKernel(c.byref(kernel), handle, b'write'))
    run(kernel, seed)
    check(cuda.cuLibraryUnload(handle))


def link(seed, size):
    state, image, n = c.c_void_p(), c.c_void_p(), c.c_size_t()
    text = ptx(seed, size)
    check(cuda.cuLinkCreate_v2(0, None, None, c.byref(state)))
    check(cuda.cuLinkAddData_v2(state, 1, text, c.c_size_t(len(text)), b'one', 0, None, None))
    check(cuda.cuLinkComplete(state, c.byref(image), c.byref(n)))
    load_module(c.string_at(image, n.value), seed)
    check(cuda.cuLinkDestroy(state))


def bad(size):
    handle = c.c_void_p()
    assert (
        cuda.cuModuleLoadData(
            c.byref(handle), ptx(1, size).replace(b'st.global.u32', b'st.global.u )')
        )
        != 0
    )


def main():
    context = c.c_void_p()
    check(cuda.cuInit(0))
    check(cuda.cuDevicePrimaryCtxRetain(c.byref(context), 0))
    check(cuda.cuCtxSetCurrent(context))
    steps = {'module': (module, 2), 'library': (library, 2), 'link': (link, 2), 'bad': (bad, 1)}
    words = iter(sys.argv[1:])
    for name in words:
        function, n = steps[name]
        function(*(int(next(words)) for _ in range(n)))


main()
