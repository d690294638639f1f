# SPDX-License-Identifier: Apache-2.0
"""Asks NVML what NCCL, XLA and monitors ask, through nvidia-ml-py, and prints what it answers.

    nvml_breadth.py questions   each question's answer, a line each
    nvml_breadth.py all         every function of nvidia-ml-py that takes a handle alone: none may
                                fail in another way than NVML's own errors
"""

import os
import sys

import pynvml as n


def answer(function, *arguments):
    try:
        value = function(*arguments)
    except n.NVMLError as error:
        return type(error).__name__.removeprefix('NVMLError_')
    return getattr(value, '__dict__', value) or value


def questions():
    a, b = (n.nvmlDeviceGetHandleByIndex(i) for i in (0, 1))
    yield 'p2p', answer(n.nvmlDeviceGetP2PStatus, a, b, 0)
    yield 'p2p itself', answer(n.nvmlDeviceGetP2PStatus, a, a, 0)
    yield 'ancestor', answer(n.nvmlDeviceGetTopologyCommonAncestor, a, b)
    yield 'pcie', [
        answer(function, a)
        for function in (
            n.nvmlDeviceGetCurrPcieLinkGeneration,
            n.nvmlDeviceGetMaxPcieLinkGeneration,
            n.nvmlDeviceGetCurrPcieLinkWidth,
            n.nvmlDeviceGetMaxPcieLinkWidth,
        )
    ]
    words = answer(n.nvmlDeviceGetCpuAffinity, a, 16)
    bits = {64 * i + j for i, word in enumerate(words) for j in range(64) if word >> j & 1}
    yield 'affinity', bits == set(range(os.cpu_count()))
    yield 'mig', answer(n.nvmlDeviceGetMigMode, a)
    yield 'ecc', answer(n.nvmlDeviceGetEccMode, a)
    bar1 = n.nvmlDeviceGetBAR1MemoryInfo(a)
    yield 'bar1', bar1.bar1Total >> 20, bar1.bar1Used
    yield 'reasons', answer(n.nvmlDeviceGetCurrentClocksThrottleReasons, a)
    yield 'nvlink', answer(n.nvmlDeviceGetNvLinkState, a, 0)
    yield 'fields', [
        value.nvmlReturn for value in n.nvmlDeviceGetFieldValues(a, [n.NVML_FI_DEV_ECC_CURRENT, 1])
    ]
    events = n.nvmlEventSetCreate()
    yield 'events', answer(n.nvmlDeviceRegisterEvents, a, 0, events)
    yield 'wait', answer(n.nvmlEventSetWait_v2, events, 1)
    yield 'state', answer(n.nvmlDeviceGetPowerState, a)
    yield 'set', answer(n.nvmlDeviceSetPersistenceMode, a, 1)
    yield 'virtual', answer(n.nvmlDeviceGetVirtualizationMode, a)
    yield 'cores', answer(n.nvmlDeviceGetNumGpuCores, a) > 0
    yield 'instance', answer(n.nvmlDeviceGetMigDeviceHandleByIndex, a, 0)


def everything():
    handle = n.nvmlDeviceGetHandleByIndex(0)
    asked = supported = 0
    for name in sorted(dir(n)):
        function = getattr(n, name)
        if not name.startswith('nvmlDeviceGet') or not callable(function):
            continue
        try:
            result = answer(function, handle)
        except (TypeError, AttributeError, ValueError):
            continue  # takes more than a handle
        if isinstance(result, str) and result in ('Uninitialized', 'Unknown', 'FunctionNotFound'):
            print(name, result)
        asked += 1
        supported += result != 'NotSupported'
    print('asked', asked, 'supported', supported, file=sys.stderr)


n.nvmlInit()
if sys.argv[1] == 'all':
    everything()
else:
    for line in questions():
        print(*line)
