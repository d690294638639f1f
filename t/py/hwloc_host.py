# SPDX-License-Identifier: Apache-2.0
"""hwloc_host.py FILE PCI PCI: a host for HWLOC_XMLFILE.

It has two processors of one core, a GPU at each, and a network card at the second."""
import sys

path, *pci = sys.argv[1:]


def package(n, devices):
    sets = "cpuset", "complete_cpuset", "nodeset", "complete_nodeset"
    s = " ".join(f'{k}="0x{1 << n:x}"' for k in sets)
    return (
        f'<object type="Package" os_index="{n}" {s} gp_index="{10 + n}">'
        f'<object type="NUMANode" os_index="{n}" {s} gp_index="{20 + n}" '
        'local_memory="1073741824"/>'
        f'<object type="PU" os_index="{n}" {s} gp_index="{30 + n}"/>'
        f'<object type="Bridge" gp_index="{40 + n}" bridge_type="0-1" depth="0" '
        f'bridge_pci="0000:[00-7f]">{devices}</object></object>'
    )


def device(n, address, kind, inside=""):
    return (
        f'<object type="PCIDev" gp_index="{n}" pci_busid="{address}" '
        f'pci_type="{kind} [10de:2330] [10de:16c1] a1" pci_link_speed="0.0">{inside}</object>'
    )


card = device(
    52, "0000:70:00.0", "0200", '<object type="OSDev" gp_index="60" name="eth7" osdev_type="2"/>'
)
every = " ".join(
    f'{k}="0x3"'
    for k in (
        "cpuset",
        "complete_cpuset",
        "allowed_cpuset",
        "nodeset",
        "complete_nodeset",
        "allowed_nodeset",
    )
)
open(path, "w").write(
    '<?xml version="1.0" encoding="UTF-8"?>\n'
    '<!DOCTYPE topology SYSTEM "hwloc2.dtd">\n<topology version="2.0">'
    f'<object type="Machine" os_index="0" {every} gp_index="1">'
    + package(0, device(50, pci[0], "0302"))
    + package(1, device(51, pci[1], "0302") + card)
    + '</object></topology>\n'
)
