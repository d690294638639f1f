#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Installs what building, testing and the demo need from Debian 12 (or newer); the CUDA Toolkit is
# NVIDIA's own.
#
# May be run as often as you like: with everything there it asks dpkg and nothing else. What is
# missing is installed when run by root, and named otherwise (exit status 1).

set -eu -o pipefail

packages=(
    # build
    g++ make autoconf
    libslurm-dev libmunge-dev llvm-19-dev
    libseccomp-dev libssl-dev libboost-dev nlohmann-json3-dev libhwloc-dev libsqlite3-dev \
        libcpp-httplib-dev libcurl4-openssl-dev
    libtomlplusplus-dev libcli11-dev libspdlog-dev prometheus-cpp-dev libzstd-dev liblz4-dev \
        libucx-dev
    # tests and demo
    libcriterion-dev perl python3 python3-venv python3-yaml ca-certificates curl
    munge slurm-wlm slurmctld slurmd slurm-client slurmdbd mariadb-server-core
    iproute2 procps util-linux man-db crun bubblewrap systemd binutils prometheus
    chromium chromium-driver libjs-chart.js fonts-dejavu-core
    # layout and lint
    clang-format clang-tidy-19 black shellcheck pyflakes3
    # make fuzz
    clang-19 libclang-rt-19-dev
)

# nvml.h, for our libnvidia-ml.so.1, where the toolkit came without it: NVIDIA has it on PyPI. Not
# fatal: all else can be built without.
nvml=13.0.87
nvml_header()
{
    local at
    for at in "${CUDA:-/usr/local/cuda}/include" /usr/local/include /usr/include; do
        [ ! -e "$at/nvml.h" ] || return 0
    done
    at=$(mktemp -d)
    if [ "$(id -u)" = 0 ] && python3 -m venv "$at/venv" > "$at/log" 2>&1 &&
        "$at/venv/bin/pip" download -q --no-deps -d "$at" \
        nvidia-nvml-dev==$nvml >> "$at/log" 2>&1 &&
        python3 -m zipfile -e "$at"/nvidia_nvml_dev-*.whl "$at/wheel" &&
        install -m 644 "$(find "$at/wheel" -name nvml.h)" /usr/local/include/nvml.h; then
        echo "install-deps-debian.sh: /usr/local/include/nvml.h from nvidia-nvml-dev $nvml"
    else
        echo "install-deps-debian.sh: no nvml.h: libnvidia-ml.so.1 will not be built; it is in nvidia-nvml-dev on PyPI" >&2
    fi
    rm -rf "$at"
}

missing=()
for package in "${packages[@]}"; do
    status=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null) || status=
    [ "$status" = installed ] || missing+=("$package")
done
[ ${#missing[@]} -gt 0 ] || { nvml_header; exit 0; }

if [ "$(id -u)" != 0 ]; then
    echo "install-deps-debian.sh: missing; as root: apt-get install --no-install-recommends ${missing[*]}" >&2
    exit 1
fi

echo "install-deps-debian.sh: installing ${missing[*]}"

# Debian starts a daemon when it installs it, unless policy-rc.d says no. The tests bring up munged
# and Slurm of their own: the system's shall not start because of us. A policy that somebody else
# made stays as it is.
policy=/usr/sbin/policy-rc.d ours= log=$(mktemp)
trap 'rm -f $log $ours' EXIT
if [ ! -e $policy ]; then
    ours=$policy
    printf '#!/bin/sh\nexit 101\n' > $policy
    chmod 755 $policy
fi

# What apt says (a thousand lines) is of interest when it fails. On a terminal, one line says how
# far it is.
progress()
{
    local kind what percent text
    while IFS=: read -r kind what percent text; do
        [ ! -t 1 ] || [[ ! $percent =~ ^[0-9.]+$ ]] || printf '\r\e[K%3d%% %.70s' "${percent%.*}" \
            "$text"
    done
    [ ! -t 1 ] || printf '\r\e[K'
}
apt()
{
    apt-get -q -y -o Dpkg::Use-Pty=0 -o APT::Status-Fd=3 "$@" 3>&1 >>"$log" 2>&1 </dev/null |
        progress
}

export DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8
if ! { apt update && apt install --no-install-recommends "${missing[@]}"; }; then
    cat "$log" >&2
    echo "install-deps-debian.sh: apt-get failed, see above" >&2
    exit 1
fi
nvml_header
