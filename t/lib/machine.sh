# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# For tests that need a whole Debian machine, with its systemd:
# . "$(dirname "$0")/../lib/machine.sh"  (after tap.sh)
#
#   machine_missing            prints why this host can have none; nothing where it can
#   machine_make SUITE PACKAGE...
#                              makes the root $machine with these packages; nothing runs in it
#   in_root LIMIT COMMAND      as try, by a shell in the root, on this host's network
#   machine_boot               boots it (systemd-nspawn), alone on its network
#   machine_halt               as its end of power does
#   machine LIMIT COMMAND      as try, by a shell in the machine that was booted
#
# $RGPU_TEST_ROOTS is a folder of roots as debootstrap leaves them (bookworm/ ...), which are copied
# in the place of calling debootstrap.

# shellcheck disable=SC2034 # for scripts
machine=$T/gpu1 machine_leader=

machine_missing()
{
    local tool
    [ "$(id -u)" = 0 ] || { echo "only root can make another machine"; return; }
    for tool in debootstrap systemd-nspawn nsenter; do
        command -v $tool > /dev/null || {
            echo "$tool is missing: apt-get install debootstrap systemd-container"
            return
        }
    done
    unshare -m true 2> /dev/null || echo "no mount namespaces here"
}

machine_make()
{
    local suite=$1
    shift
    chmod 755 "$T"
    if [ -e "${RGPU_TEST_ROOTS:-}/$suite/etc/debian_version" ]; then
        cp -a "$RGPU_TEST_ROOTS/$suite" "$machine" || bail "no copy of $suite"
        mkdir -p "$machine/rgpu" "$machine/usr/local/cuda"
    fi
    try 900 "$root/contrib/debian-root" --suite "$suite" --bare "$machine" true
    [ "$rc" = 0 ] || bail "debootstrap $suite: $(tail -n 5 <<< "$out$err")"
    # Nothing starts while it is not booted.
    printf '#!/bin/sh\nexit 101\n' > "$machine/usr/sbin/policy-rc.d"
    chmod 755 "$machine/usr/sbin/policy-rc.d"
    in_root 900 "apt-get -q update && apt-get -q -y install --no-install-recommends \
        systemd systemd-sysv dbus $*"
    [ "$rc" = 0 ] || bail "packages of $suite: $(tail -n 5 <<< "$out$err")"
    rm "$machine/usr/sbin/policy-rc.d"
    echo gpu1 > "$machine/etc/hostname"
    printf '127.0.0.1 localhost\n192.0.2.1 gpu1\n' > "$machine/etc/hosts"
}

in_root()
{
    try "$1" "$root/contrib/debian-root" --bare "$machine" \
        env DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8 bash -c "$2"
}

machine_boot()
{
    start machine systemd-nspawn --quiet -D "$machine" --hostname=gpu1 --private-network \
        --register=no --keep-unit --capability=all --boot
    machine_pid=$pid
    cleanup_do machine_halt
    wait_for 30 machine_is_there || bail "no machine: $(tail -n 5 "$T/machine.log")"
    # Names are resolved only where there is an interface beside lo (AI_ADDRCONFIG).
    nsenter -t "$machine_leader" -n sh -c 'ip link add eth0 type veth peer name eth1 &&
        ip addr add 192.0.2.1/24 dev eth0 && ip link set eth0 up && ip link set eth1 up' ||
        bail "no interface"
    wait_for 120 machine_is_up || bail "it does not boot: $(tail -n 20 "$T/machine.log")"
}
machine_is_there() { machine_leader=$(pgrep -P "$machine_pid") && [ -n "$machine_leader" ]; }
machine_is_up()
{
    machine 20 'systemctl is-system-running'
    [[ $out =~ ^(running|degraded)$ ]]
}

machine_halt()
{
    [ -n "$machine_leader" ] || return 0
    machine 20 'systemctl poweroff'
    wait_for 60 tap_gone "$machine_pid" || kill -9 "$machine_leader"
    machine_leader=
    # Kept by systemd-nspawn for the next one, in the name of the folder.
    rm -rf "/run/systemd/nspawn/propagate/gpu1"
}

machine()
{
    try "$1" nsenter -t "$machine_leader" -m -u -i -n -p -C -r -w env -i HOME=/root \
        LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
        PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin bash -c "$2"
}
