# SPDX-License-Identifier: Apache-2.0
"""Looks at this node as programs do that look for GPUs before they load a driver.

Prints a line for each kind of thing: the device files (and whether they can be opened), then for
each GPU of CUDA its address there, in NVML, in /proc/driver/nvidia and in /sys, which must agree.
"""

import ctypes
import glob
import os
import stat


def device_files():
    names = sorted(os.path.basename(path) for path in glob.glob('/dev/nvidia*'))
    for name in names:
        path = '/dev/' + name
        assert stat.S_ISCHR(os.stat(path).st_mode), path
        file = os.open(path, os.O_RDWR)
        assert os.read(file, 1) == b'' and os.write(file, b'x') == 1
        os.close(file)
    return names


def cuda_addresses():
    cuda = ctypes.CDLL('libcuda.so.1')
    count = ctypes.c_int()
    assert cuda.cuInit(0) == 0 and cuda.cuDeviceGetCount(ctypes.byref(count)) == 0
    for device in range(count.value):
        text = ctypes.create_string_buffer(64)
        assert cuda.cuDeviceGetPCIBusId(text, 64, device) == 0
        numbers = []
        for attribute in (50, 33, 34):  # domain, bus, device
            value = ctypes.c_int()
            assert cuda.cuDeviceGetAttribute(ctypes.byref(value), attribute, device) == 0
            numbers.append(value.value)
        address = text.value.decode()
        assert address == '%04x:%02x:%02x.0' % tuple(numbers), (address, numbers)
        found = ctypes.c_int(-1)
        assert cuda.cuDeviceGetByPCIBusId(ctypes.byref(found), text) == 0
        assert found.value == device
        yield address


def nvml_address(index):
    nvml = ctypes.CDLL('libnvidia-ml.so.1')
    assert nvml.nvmlInit_v2() == 0
    handle = ctypes.c_void_p()
    assert nvml.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(handle)) == 0
    info = ctypes.create_string_buffer(68)
    assert nvml.nvmlDeviceGetPciInfo_v3(handle, info) == 0
    uuid = ctypes.create_string_buffer(96)
    assert nvml.nvmlDeviceGetUUID(handle, uuid, 96) == 0
    return info.raw[36:].split(b'\0')[0].decode(), uuid.value.decode()


def main():
    print('devices', *device_files())
    with open('/proc/driver/nvidia/version') as version:
        assert version.read().startswith('NVRM version: NVIDIA')
    addresses = list(cuda_addresses())
    informed = {}
    for path in glob.glob('/proc/driver/nvidia/gpus/*/information'):
        with open(path) as file:
            lines = dict(line.split(':', 1) for line in file)
        informed[lines['Bus Location'].strip()] = lines['GPU UUID'].strip()
    for index, address in enumerate(addresses):
        nvml, uuid = nvml_address(index)
        assert nvml.lower() == '0000' + address, (nvml, address)
        assert informed.pop(address) == uuid
        sys = '/sys/bus/pci/devices/' + address
        if os.path.isdir('/sys/bus/pci/devices'):
            with open(sys + '/class') as file:
                assert file.read() == '0x030200\n'
            # NCCL's way to the device's real path.
            bus = '/sys/class/pci_bus/%s/../../%s' % (address.rsplit(':', 1)[0], address)
            assert os.path.realpath(bus) == os.path.realpath(sys), bus
        print('gpu', address)
    print('more', len(informed))


main()
