# SPDX-License-Identifier: Apache-2.0
"""Processes that are the ranks of an NCCL communicator: what programs of tests share."""
import ctypes
import os
import tempfile
import time


class UniqueId(ctypes.Structure):
    _fields_ = [('bytes', ctypes.c_char * 128)]


def unique_id(nccl, rank, path, check):
    """What rank 0 makes and leaves in the file of that name; check(result) ends on an error."""
    unique = UniqueId()
    if rank == 0:
        check(nccl.ncclGetUniqueId(ctypes.byref(unique)))
        with open(path + '~', 'wb') as f:
            f.write(bytes(unique))
        os.rename(path + '~', path)
    while not os.path.exists(path):
        time.sleep(0.05)
    with open(path, 'rb') as f:
        ctypes.memmove(ctypes.byref(unique), f.read(), 128)
    return unique


def run(ranks, rank_main):
    """A process for each rank: rank_main(rank, path for unique_id) returns its exit status. Prints
    "right" where all ended with 0."""
    with tempfile.TemporaryDirectory() as folder:
        children = []
        for rank in range(ranks):
            child = os.fork()
            if child == 0:
                try:
                    os._exit(rank_main(rank, folder + '/id'))
                except BaseException as why:
                    print(why, flush=True)
                    os._exit(1)
            children.append(child)
        ends = [os.waitpid(child, 0)[1] for child in children]
    print('right' if not any(ends) else ends)
