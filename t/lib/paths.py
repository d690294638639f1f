# SPDX-License-Identifier: Apache-2.0
"""Modules, libraries and link inputs from files that cannot be read: each call prints the paths'
results."""
import ctypes as c
import os
import sys

cuda = c.CDLL('libcuda.so.1')
context, made = c.c_void_p(), c.c_void_p()
null = c.c_void_p()
assert cuda.cuInit(0) == 0
assert cuda.cuDevicePrimaryCtxRetain(c.byref(context), 0) == 0
assert cuda.cuCtxSetCurrent(context) == 0
state = c.c_void_p()
assert cuda.cuLinkCreate_v2(0, null, null, c.byref(state)) == 0
calls = {
    'cuModuleLoad': lambda path: cuda.cuModuleLoad(c.byref(made), path),
    'cuLibraryLoadFromFile': lambda path: cuda.cuLibraryLoadFromFile(
        c.byref(made), path, null, null, 0, null, null, 0
    ),
    'cuLinkAddFile_v2': lambda path: cuda.cuLinkAddFile_v2(state, 1, path, 0, null, null),
}
for name, call in calls.items():
    print(name, *sorted({call(os.fsencode(path)) for path in sys.argv[1:]}))
