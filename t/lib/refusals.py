# SPDX-License-Identifier: Apache-2.0
"""What each driver call answers to arguments that mean nothing, each in a process of its own.

refusals.py ask CUDA_H
    one line for each call and kind of arguments: its result, and that of the next
    cuCtxSynchronize; or the signal that ended the process
refusals.py compare DIRECT REMOTE
    prints where the second file says yes and the first no or the other way round, where only one
    was refused later, and where only the second crashed. Calls that the first does not support
    (801) say nothing. Ends with 1 if there is anything to print.
"""
import ctypes
import os
import re
import signal
import sys

NOT_SUPPORTED = '801'
ROOM = 4096
# Pointers, and integers: null handles always.
ARGUMENTS = {
    'zeros': (False, 0),
    'room': (True, 0),
    'ones': (True, 1),
    'null': (False, 1),
    'many': (True, 60),
}
BY_VALUE = ('CUuuid', 'CUmemLocation', 'CUdevResource', 'CUipcMemHandle', 'CUipcEventHandle')
FUNCTIONS = (
    'CUhostFn',
    'CUstreamCallback',
    'CUoccupancyB2DSize',
    'CUasyncCallback',
    'CUlogsCallback',
)


def prototypes(header):
    text = open(header).read()
    text = re.sub(r'/\*.*?\*/', '', text, flags=re.S)
    text = re.sub(r'//[^\n]*', '', text)
    handles = set(re.findall(r'typedef\s+struct\s+\w+\s*\*\s*(\w+)\s*;', text)) | set(FUNCTIONS)

    def kind(parameter):
        word = parameter.replace('const ', '').split()[0]
        if '*' in parameter or '[' in parameter:
            return 'pointer'
        return (
            'handle'
            if word in handles
            else 'struct'
            if word in BY_VALUE
            else word
            if word == 'float'
            else 'integer'
        )

    for name, parameters in re.findall(r'CUresult\s+CUDAAPI\s+(\w+)\s*\(([^;{]*)\)\s*;', text):
        parameters = parameters.strip()
        kinds = (
            [] if parameters in ('', 'void') else [kind(p.strip()) for p in parameters.split(',')]
        )
        # Checkpoints are of whole processes; the per-thread names go the way of the plain ones.
        if (
            'struct' not in kinds
            and not name.startswith('cuCheckpoint')
            and not re.search('_pt[sd][sz]$', name)
        ):
            yield name, kinds


def values(kinds, pointers, number, room):
    places = iter(range(0, len(room), ROOM))
    for kind in kinds:
        if kind == 'pointer':
            yield ctypes.c_void_p(ctypes.addressof(room) + next(places) if pointers else 0)
        else:
            yield {'handle': ctypes.c_void_p, 'float': ctypes.c_float, 'integer': ctypes.c_uint64}[
                kind
            ](0 if kind != 'integer' else number)


def answer(name, kinds, which, to):
    """In a child: makes the call with each kind of arguments and writes what came."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    signal.alarm(60)
    cuda = ctypes.CDLL('libcuda.so.1')
    if not hasattr(cuda, name):
        os._exit(0)
    context = ctypes.c_void_p()
    assert cuda.cuInit(0) == 0 and cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
    cuda.cuCtxSetCurrent(context)
    for a in which:
        room = (ctypes.c_char * (ROOM * 24))()
        got = getattr(cuda, name)(*values(kinds, *ARGUMENTS[a], room))
        os.write(to, b'%d %d\n' % (got, cuda.cuCtxSynchronize()))
    os._exit(0)


def ask(header):
    for name, kinds in sorted(prototypes(header)):
        left = list(ARGUMENTS)
        while left:
            sys.stdout.flush()
            read, write = os.pipe()
            child = os.fork()
            if not child:
                answer(name, kinds, left, write)
            os.close(write)
            with os.fdopen(read) as answers:
                for line in answers:
                    print(name, left.pop(0), line, end='')
            status = os.waitpid(child, 0)[1]
            if not left or not os.WIFSIGNALED(status):
                break
            print(name, left.pop(0), 'signal', os.WTERMSIG(status))


def compare(direct, remote):
    first, second = (
        {tuple(line.split()[:2]): line.split()[2:] for line in open(path)}
        for path in (direct, remote)
    )
    assert len(first) > 1000, 'too few answers: %d' % len(first)
    differences = 0
    for call, (now, later) in first.items():
        other, other_later = second.get(call, ('nothing', ''))
        if now in (NOT_SUPPORTED, 'signal'):
            continue
        if other.isdigit() and (now == '0') == (other == '0') and later == other_later:
            continue
        print(*call, 'directly:', now, later, 'remotely:', other, other_later)
        differences += 1
    return differences


if sys.argv[1] == 'ask':
    ask(sys.argv[2])
else:
    sys.exit(compare(sys.argv[2], sys.argv[3]) > 0)
