# SPDX-License-Identifier: Apache-2.0
"""Two processes, with a GPU each, join an NCCL communicator and connect (NCCL_RUNTIME_CONNECT=0):
each gets the other's buffers by descriptors of memory. No kernel is launched. Prints "right".

NCCL is the one that PyTorch's environment has. NCCL_DEBUG=INFO says what it did.
"""
import ctypes
import glob
import os
import site
import sys
import tempfile
import time

RANKS = 2


class UniqueId(ctypes.Structure):
    _fields_ = [('bytes', ctypes.c_char * 128)]


def join(rank, path):
    (library,) = glob.glob(site.getsitepackages()[0] + '/nvidia/nccl/lib/libnccl.so.2')
    import torch  # after the fork: it loads the driver

    nccl = ctypes.CDLL(library)
    nccl.ncclGetLastError.restype = ctypes.c_char_p
    unique = UniqueId()
    if rank == 0:
        assert nccl.ncclGetUniqueId(ctypes.byref(unique)) == 0
        with open(path + '~', 'wb') as f:
            f.write(bytes(unique))
        os.rename(path + '~', path)
    while not os.path.exists(path):
        time.sleep(0.05)
    with open(path, 'rb') as f:
        ctypes.memmove(ctypes.byref(unique), f.read(), 128)
    torch.cuda.set_device(rank)
    torch.zeros(1).cuda()
    communicator = ctypes.c_void_p()
    result = nccl.ncclCommInitRank(ctypes.byref(communicator), RANKS, unique, rank)
    if result:
        print(f'rank {rank}: {result}: {nccl.ncclGetLastError(None)}', file=sys.stderr)
    return result


def main():
    with tempfile.TemporaryDirectory() as folder:
        children = []
        for rank in range(RANKS):
            child = os.fork()
            if child == 0:
                os._exit(join(rank, folder + '/id'))
            children.append(child)
        ends = [os.waitpid(child, 0)[1] for child in children]
    print('right' if not any(ends) else ends)


main()
