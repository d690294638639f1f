#!/bin/bash
# Installs what building, testing and the demo need from Debian 12 (or newer); the CUDA Toolkit is NVIDIA's own.
#
# May be run as often as you like: with everything there it asks dpkg and nothing else. What is missing is
# installed when run by root, and named otherwise (exit status 1).

set -eu

packages=(
    # build
    g++ make autoconf
    libslurm-dev libmunge-dev llvm-19-dev
    libcurl4-openssl-dev nlohmann-json3-dev libhwloc-dev libsqlite3-dev libcpp-httplib-dev
    libtomlplusplus-dev libcli11-dev libspdlog-dev prometheus-cpp-dev libzstd-dev liblz4-dev
    # tests and demo
    libcriterion-dev perl python3 python3-venv ca-certificates
    munge slurm-wlm slurmctld slurmd slurm-client
    iproute2 procps util-linux
)

missing=()
for package in "${packages[@]}"; do
    status=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null) || status=
    [ "$status" = installed ] || missing+=("$package")
done
[ ${#missing[@]} -gt 0 ] || exit 0

if [ "$(id -u)" != 0 ]; then
    echo "install-deps-debian.sh: missing; as root: apt-get install --no-install-recommends ${missing[*]}" >&2
    exit 1
fi

echo "install-deps-debian.sh: installing ${missing[*]}"

# Debian starts a daemon when it installs it, unless policy-rc.d says no. The tests bring up munged and Slurm of
# their own: the system's shall not start because of us. A policy that somebody else made stays as it is.
policy=/usr/sbin/policy-rc.d
if [ ! -e $policy ]; then
    trap 'rm -f $policy' EXIT
    printf '#!/bin/sh\nexit 101\n' > $policy
    chmod 755 $policy
fi

export DEBIAN_FRONTEND=noninteractive
apt-get update -q
apt-get install -q -y --no-install-recommends "${missing[@]}"
