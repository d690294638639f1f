#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# contrib/ansible: the role installs and configures a controller and a GPU host in two roots that
# have never seen rgpu, by Ansible's chroot connection; then the GPU host is booted and lends. As
# root, with Debian's archive and the packages of make deb.
. "$(dirname "$0")/../lib/tap.sh"
. "$(dirname "$0")/../lib/machine.sh"

why=$(machine_missing)
[ -z "$why" ] || skip_all "$why"
command -v ansible-playbook > /dev/null && ansible-doc -t connection community.general.chroot \
    > /dev/null 2>&1 || skip_all "Ansible is missing: apt-get install ansible"
packages=${RGPU_TEST_PACKAGES:-$build/deb}
compgen -G "$packages/rgpu-client_*.deb" > /dev/null ||
    skip_all "no packages in $packages: make deb, or RGPU_TEST_PACKAGES=FOLDER"
suite=$(. /etc/os-release && echo "$VERSION_CODENAME")

# --- two roots, with what they can have from Debian

root_of() { machine=$T/$1; }
depends="$(for name in client slurm server softgpu; do
    dpkg-deb -f "$packages"/rgpu-"$name"_*.deb Depends | tr ',' '\n' |
        sed 's/[|(].*//' | grep -v rgpu-
done | sort -u | xargs)"
for name in head gpu1; do
    root_of $name
    machine_make "$suite" munge slurm-client python3 procps "$depends" \
        "$([ $name = gpu1 ] || echo slurmctld)"
    cp -L /etc/resolv.conf "$machine/etc/resolv.conf"
done
root_of head
cat > "$machine/etc/slurm/slurm.conf" <<'END'
ClusterName=one
SlurmctldHost=head
SlurmUser=slurm
NodeName=cn1
PartitionName=all Nodes=ALL Default=YES State=UP
END
cp "$machine/etc/slurm/slurm.conf" "$T/slurm.conf"
cat > "$T/inventory" <<END
[rgpu_servers]
gpu1 ansible_host=$T/gpu1
[rgpu_controller]
head ansible_host=$T/head
[all:vars]
ansible_connection=community.general.chroot
ansible_python_interpreter=/usr/bin/python3
ansible_become=false
END

# play [OPTION...]: with /proc and /dev in both roots, gone with the mount namespace.
play()
{
    try 900 unshare -m sh -c 'for root in "$T/head" "$T/gpu1"; do
            mount -t proc proc "$root/proc" && mount --rbind /dev "$root/dev" || exit
        done
        cd "$T" && exec ansible-playbook "$@"' sh -i "$T/inventory" -e rgpu_packages="$packages" \
        -e rgpu_driver=softgpu -e "rgpu_setup_options='--licences 200'" "$@" \
        "$root/contrib/ansible/site.yml"
}
export T ANSIBLE_LOCALHOST_WARNING=false ANSIBLE_NOCOLOR=1 ANSIBLE_HOME=$T/ansible
play
is "$rc" 0 "the playbook runs" || bail "$(tail -n 30 <<< "$out$err")"
changed() { sed -n "s/^$1 .* changed=\([0-9]*\) .*failed=0 .*/\1/p" <<< "$out"; }
like "$out" 'systemctl restart slurmctld' "what is to do with Slurm then is said"
installed()
{
    chroot "$T/$1" dpkg-query -W -f '${db:Status-Abbrev}${Package}\n' 'rgpu-*' |
        sed -n 's/^ii *//p' | xargs
}
is "$(installed head)" "rgpu-client rgpu-slurm" "the controller has its packages"
is "$(installed gpu1)" "rgpu-client rgpu-server rgpu-softgpu" "so has the GPU host"
for name in head gpu1; do
    like "$(cat "$T/$name/etc/rgpu/rgpu.conf")" 'name = "gpu1"
address = "gpu1:7710"' "rgpu.conf of $name names the server"
    try 20 chroot "$T/$name" rgpu config
    is "$rc" 0 "... and rgpu reads it" || diag "$err"
done
is "$(sed -n 's/^Licenses=//p' "$T/head/etc/slurm/slurm.conf")" rgpu:200 \
    "slurm.conf has rgpu's lines"
units=etc/systemd/system
ok "rgpud is enabled" test -L "$T/gpu1/$units/multi-user.target.wants/rgpud.service"
ok "rgpu-sync.timer is" test -L "$T/head/$units/timers.target.wants/rgpu-sync.timer"

play
is "$rc $(changed head) $(changed gpu1)" "0 0 0" "a second time nothing changes" ||
    diag "$(grep -B 3 -A 3 '^changed' <<< "$out")$err"
play --check -e rgpu_data_port=7799
is "$rc $(changed head) $(changed gpu1)" "0 0 1" "another port is for the GPU host alone" ||
    diag "$out$err"
sed 's|^SlurmUser|Prolog=/bin/false\n&|' "$T/slurm.conf" > "$T/head/etc/slurm/slurm.conf"
cp "$T/head/etc/slurm/slurm.conf" "$T/before"
play
like "$rc $out" '^2 .*/bin/false already, and Slurm takes one' "what is in the way is said"
ok "... and nothing is written then" cmp "$T/before" "$T/head/etc/slurm/slurm.conf"

# --- the GPU host, switched on

root_of gpu1
machine_boot
lends() { machine 20 'rgpu list'; [[ $out =~ "2 of 2 GPUs free" ]]; }
ok "the GPU host lends when it is booted" wait_for 60 lends ||
    { machine 20 'journalctl -u rgpud --no-pager | tail'; diag "$out"; }
done_testing
