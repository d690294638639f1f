#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What goes into the programs of others loads with glibc 2.28, as RHEL 8 and Debian 10 have it.
. "$(dirname "$0")/lib/tap.sh"

newest=2.28
# The versions of symbols that the file needs of other libraries: GLIBC_2.17 ...
versions() { readelf -VW "$1" | grep -oE 'Name: [^ ]+' | cut -d' ' -f2 | sort -uV; }
newer()
{
    versions "$1" | while read -r version; do
        [[ $version =~ ^GLIBC_([0-9.]+)$ ]] &&
            [ "$(printf '%s\n' "$newest" "${BASH_REMATCH[1]}" | sort -V | tail -n 1)" = $newest ] ||
            echo "$version"
    done
}
# Everything that has been in glibc from 2.28 on.
strange()
{
    readelf -dW "$1" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' |
        grep -vxE 'lib(c|m|pthread|dl|rt)\.so\.[0-9]|ld-linux-x86-64\.so\.2'
}

# Programs of hosts are built for the host.
here=$(getconf GNU_LIBC_VERSION | cut -d' ' -f2)
if [ "$(printf '%s\n' 2.34 "$here" | sort -V | head -n 1)" = 2.34 ]; then
    like "$(newer "$build/sbin/rgpud")" 'GLIBC_2\.3' "readelf shows that rgpud needs a newer glibc"
else
    skip "this system's glibc is an old one"
fi
for product in lib/interpose/libcuda.so.1 lib/interpose/libnvidia-ml.so.1 \
    lib/interpose/nccl/libnccl.so.2 lib/smi/nvidia-smi; do
    [ -e "$build/$product" ] || { skip "$product is not built: there is no nvml.h" 3; continue; }
    like "$(versions "$build/$product" | tr '\n' ' ')" 'GLIBC_2\.2\.5 ' \
        "$product: readelf shows what it needs"
    is "$(newer "$build/$product" | tr '\n' ' ')" "" "$product needs glibc $newest only"
    is "$(strange "$build/$product")" "" "... and no other library"
done

# The functions that are linked in do not leave a library: programs have their own.
for library in libcuda.so.1 libnvidia-ml.so.1 nccl/libnccl.so.2; do
    [ -e "$interpose/$library" ] || { skip "$library is not built"; continue; }
    is "$(readelf --dyn-syms -W "$interpose/$library" |
        awk '$5 == "GLOBAL" && $7 != "UND" && $8 !~ /^(cu|nvml|p?nccl)[A-Z]/ {print $8}')" "" \
        "$library exports its own functions only"
done
done_testing
