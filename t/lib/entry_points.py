# SPDX-License-Identifier: Apache-2.0
"""What cuGetProcAddress_v2 gives for every name, at every version and flag, against what
cudaTypedefs.h and its like say.

entry_points.py INCLUDE_DIR DRIVER_VERSION [CALL-THAT-IS-MISSING...]

Asks before cuInit, and again after it. A base name's symbols in the library and its
PFN_<name>_v<version> types in the headers are as many and sort the same way: that is the whole map
(FACTS of the CUDA toolkit, seen in its own clients). Prints how many questions were asked and every
wrong answer; exit status 1 if there is one.
"""
import ctypes
import functools
import re
import sys

include, driver_version, missing = sys.argv[1], int(sys.argv[2]), set(sys.argv[3:])
headers = ('', 'Profiler', 'GL', 'EGL', 'VDPAU')
text = ''.join(open(f'{include}/cuda{name}Typedefs.h').read() for name in headers)
versions = {}
per_thread = {}
for name, version, suffix in re.findall(r'\*PFN_(cu(?!WGL)\w+?)_v(\d+)(_pt[ds][zs])?\)', text):
    (per_thread if suffix else versions).setdefault(name, set()).add(int(version))
cuda = ctypes.CDLL('libcuda.so.1')
exported = set(open('/dev/stdin').read().split())


def address(symbol):
    return ctypes.cast(getattr(cuda, symbol), ctypes.c_void_p).value


@functools.cache
def suffixes(name, pattern):
    found = [s for s in exported if re.fullmatch(re.escape(name) + r'(_v\d+)?' + pattern, s)]
    return sorted(found, key=lambda s: int((re.search(r'_v(\d+)', s) or [0, 1])[1]))


def expected(name, version, flags):
    """(status, symbol)"""
    plain = list(zip(sorted(versions[name]), suffixes(name, '')))
    assert len(plain) == len(versions[name]) == len(suffixes(name, '')), name
    known = [(v, s) for v, s in plain if v <= driver_version and s not in missing]
    if not known:
        return 1, None
    fits = [s for v, s in known if v <= version]
    if not fits:
        return 2, None
    if flags == 2:
        # The newest per-thread variant of its time, where there is one.
        for v, s in reversed([(v, s) for v, s in known if v <= version]):
            for suffix in ('_ptsz', '_ptds'):
                if s + suffix in exported and max(v, 7000) <= version and s + suffix not in missing:
                    return 0, s + suffix
    return 0, fits[-1]


asked = wrong = 0


def check(name, version, flags):
    global asked, wrong
    pointer, status = ctypes.c_void_p(), ctypes.c_int(-1)
    result = cuda.cuGetProcAddress_v2(
        name.encode(), ctypes.byref(pointer), version, ctypes.c_uint64(flags), ctypes.byref(status)
    )
    asked += 1
    if version > driver_version:
        if result == 1:
            return
        want = 'CUDA_ERROR_INVALID_VALUE'
    else:
        want, symbol = expected(name, version, flags)
        if (result, status.value) == (0, want) and pointer.value == (
            address(symbol) if symbol else None
        ):
            return
    wrong += 1
    if wrong < 20:
        print(
            f'{name} at {version}, flags {flags}: '
            f'result {result}, status {status.value}; wanted {want}'
        )


def all_of_them(times):
    for name in versions:
        for version in times:
            for flags in (0, 1, 2):
                check(name, version, flags)


all_of_them(
    sorted({v for vs in versions.values() for v in vs} | {10000, 11000, 12000, 13000, 14000})
)
assert cuda.cuCtxGetCurrent(ctypes.byref(ctypes.c_void_p())) == 3, 'not initialised by asking'
assert cuda.cuInit(0) == 0
before = {
    name: cuda.cuGetProcAddress_v2(
        b'cuInit', ctypes.byref(ctypes.c_void_p()), 12000, ctypes.c_uint64(f), None
    )
    for name, f in (('both', 3), ('unknown', 4))
}
assert before == {'both': 1, 'unknown': 1}, before
all_of_them([12000, driver_version])
print(f'{asked} questions, {wrong} wrong answers')
sys.exit(wrong > 0)
