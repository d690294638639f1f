#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The Debian packages: built, judged by lintian, installed in a machine that has never seen rgpu,
# used there by a job, upgraded below a running job, removed and purged. As root, with Debian's
# archive; three quarters of an hour without ccache, most of it two builds.
. "$(dirname "$0")/../lib/tap.sh"
. "$(dirname "$0")/../lib/machine.sh"

why=$(machine_missing)
[ -z "$why" ] || skip_all "$why"
for tool in dpkg-buildpackage dh lintian; do
    command -v $tool > /dev/null ||
        skip_all "$tool is missing: apt-get install dpkg-dev debhelper lintian"
done
cd "$root" || exit 1
suite=$(. /etc/os-release && echo "$VERSION_CODENAME")
names="client slurm server softgpu doc"

# --- built

# RGPU_TEST_PACKAGES=FOLDER: those that are there.
packages=${RGPU_TEST_PACKAGES:-$build/deb}
if [ -z "${RGPU_TEST_PACKAGES:-}" ]; then
    if command -v ccache > /dev/null; then
        # debhelper gives the build a HOME of its own: with an empty cache, and no ccache.conf.
        CCACHE_DIR=$(ccache -k cache_dir) CCACHE_MAXSIZE=$(ccache -k max_size)
        export CCACHE_DIR CCACHE_MAXSIZE RGPU_CXX="${RGPU_CXX:-ccache g++}"
    fi
    try 7000 make --no-print-directory deb O="$build"
    is "$rc" 0 "make deb" || bail "$(tail -n 20 <<< "$out") $(tail -n 20 <<< "$err")"
    # Once more, at another time of day, in another order of letters, for others to read less. With
    # ccache the compiler's part is taken from the first build; LC_ALL would be another one to it.
    mkdir "$T/first" && mv "$packages"/*.deb "$T/first"
    try 7000 env TZ=Asia/Tokyo LC_COLLATE=C.UTF-8 sh -c 'umask 027; exec "$@"' sh \
        make --no-print-directory deb O="$build"
    is "$rc" 0 "make deb again" || diag "$(tail -n 20 <<< "$out$err")"
    for name in "$T"/first/*.deb; do
        ok "... gives the bytes of $(basename "$name")" cmp "$name" "$packages/${name##*/}"
    done
    rm -rf "$T/first"
else
    skip "RGPU_TEST_PACKAGES has them" 2
fi
version=$(sed -n '1s/^rgpu (\([^)]*\)).*/\1/p' debian/changelog)
file() { echo "$packages/rgpu-$1_$version"_*.deb; }
for name in $names; do
    ok "rgpu-$name is there" test -s "$(file "$name")"
done
for name in client slurm server softgpu; do
    ok "... with its debug symbols apart" test -s "$(file "$name-dbgsym")"
done
is "$(lintian --tag-display-limit 0 "$packages"/*.changes 2>&1 | grep '^[EW]:')" "" \
    "lintian has neither errors nor warnings"
one_release='slurm-client \(>= ([0-9.]+)\), slurm-client \(<< [0-9.]+~\)'
like "$(dpkg-deb -f "$(file slurm)" Depends)" "$one_release" \
    "rgpu-slurm depends on the release of Slurm it was built for"
mkdir "$T/all"
for name in "$packages"/*.deb; do dpkg-deb -x "$name" "$T/all"; done
debug() { readelf -SW "$1" | grep -c '\.debug_info'; }
is "$(debug "$T/all/usr/sbin/rgpud")" 0 "rgpud itself has none"
find "$T/all/usr/lib/debug" -name '*.debug' > "$T/debug"
while read -r name; do
    objcopy --decompress-debug-sections "$name" "$name"
done < "$T/debug"
is "$(grep -rl "$root" "$T/all")" "" "no file names the folder that it was built in"
rm -rf "$T/all"

# --- a machine with Slurm and MUNGE, and nothing of rgpu

machine_make "$suite" munge slurmctld slurmd slurm-client python3-minimal procps
mkdir "$machine/packages" "$machine/newer"
for name in $names; do cp "$(file "$name")" "$machine/packages/"; done
install -m 755 "$build/cuda/vector_add-static" "$machine/usr/local/bin/vector_add" ||
    bail "no program: make cuda"
in_root 300 'useradd -m alice && apt-get -q -y install --no-install-recommends --download-only \
    /packages/*.deb'
is "$rc" 0 "Debian has all that the packages depend on" || diag "$(tail -n 20 <<< "$out$err")"
cat > "$machine/etc/slurm/slurm.conf" <<'END'
ClusterName=one
SlurmctldHost=gpu1
SlurmUser=slurm
StateSaveLocation=/var/lib/slurm/slurmctld
SlurmdSpoolDir=/var/lib/slurm/slurmd
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
ReturnToService=2
NodeName=gpu1 CPUs=4 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES State=UP
END
in_root 20 'slurmd -C | sed -n "s/ UpTime.*//p; s/.*\\(CPUs=[0-9]*\\).*/\\1/p" | head -n 1'
like "$out" 'CPUs=' "slurmd knows this machine"
sed -i "s/CPUs=4/CPUs=$(nproc)/" "$machine/etc/slurm/slurm.conf"
machine_boot
up() { machine 20 'sinfo -h -o %T'; [ "$out" = idle ]; }
ok "Slurm runs without rgpu" wait_for 60 up || bail "$out $err"
# What is of the packages' and of nothing else: logs and dpkg's own lists change anyhow.
state()
{
    machine 60 'find /etc /usr /lib /opt /var /root /home /run/rgpu /dev/shm /tmp -xdev \
        \( -path /var/log -o -path "/var/lib/dpkg/*" -o -path "/var/lib/apt/*" \
        -o -path "/var/cache/*" -o -path "/var/lib/slurm/*" -o -path "/var/lib/systemd/*" \
        -o -path "/tmp/systemd-private*" -o -path "/var/tmp/*" \) -prune -o -print 2> /dev/null |
        LC_ALL=C sort'
    echo "$out"
}
state > "$T/before"

# --- installed and set up, as README says it

machine 600 'cd /packages && apt-get -q -y install --no-install-recommends ./*.deb'
is "$rc" 0 "apt-get installs them" || bail "$(tail -n 20 <<< "$out$err")"
machine 10 'rgpu --version'
like "$out" "^rgpu $version \(commit [0-9a-f]{12}\)$" "rgpu --version has the commit"
machine 10 'getent passwd rgpu | cut -d: -f1,6,7'
is "$out" "rgpu:/var/lib/rgpu:/usr/sbin/nologin" "rgpud has its account"
machine 10 'systemctl is-enabled rgpud rgpu-spawner rgpu-sync.timer; systemctl is-active rgpud'
is "$(tr '\n' ' ' <<< "$out")" "disabled disabled disabled inactive " \
    "nothing runs before it is told to"
machine 10 'ls /usr/share/man/man1/rgpu.1.gz /usr/share/man/man5/rgpu.conf.5.gz \
    /usr/share/man/man8/{rgpud,rgpu-spawner,spank_rgpu}.8.gz'
is "$rc" 0 "the manual is there"

machine 10 'sed -i -e "/^name = \"gpu2\"/,/^address/d" -e "s/gpu1.example.org/gpu1/" \
    -e "s/^driver = .*/driver = \"softgpu\"/" /etc/rgpu/rgpu.conf &&
    python3 - <<< "import re
path = \"/etc/rgpu/rgpu.conf\"
text = open(path).read()
open(path, \"w\").write(re.sub(r\"\[\[server\]\]\n(?!name)\", \"\", text))"'
machine 60 'systemctl enable --now rgpud'
is "$rc" 0 "systemctl enable --now rgpud" || diag "$out$err"
listed() { machine 20 "rgpu list"; [[ $out =~ "2 of 2 GPUs free" ]]; }
ok "rgpu list shows the server's GPU" wait_for 30 listed ||
    { machine 20 'journalctl -u rgpud -u rgpu-spawner --no-pager | tail -n 30'; diag "$out"; }
machine 60 'rgpu slurm setup --apply'
is "$rc" 0 "rgpu slurm setup --apply" || diag "$out$err"
machine 60 'systemctl restart slurmctld && systemctl enable --now rgpu-sync.timer &&
    systemctl restart slurmd'
is "$rc" 0 "Slurm starts with rgpu's plugins" || diag "$out$err"
ok "... and its node is up" wait_for 60 up || diag "$out$err"
job() { machine 120 "cd / && runuser -u alice -- srun -t 5 $*"; }
job --gres=rgpu:1 vector_add
is "$rc" 0 "srun --gres=rgpu:1 runs a CUDA program of a user" ||
    { diag "$out$err"; machine 20 'journalctl --no-pager | tail -n 40'; diag "$out"; }
job --gres=rgpu:1 nvidia-smi -L
like "$out" '^GPU 0: rgpu software GPU' "... and nvidia-smi shows the GPU" || diag "$err"
job vector_add
isnt=$rc
is "$((isnt != 0))" 1 "a job that asks for none has none"
machine 60 'rgpu slurm check'
is "$rc" 0 "rgpu slurm check finds nothing wrong" || diag "$out$err"

# --- an upgrade below a running job, and a configuration file that was changed

for name in $names; do
    dpkg-deb -R "$(file "$name")" "$T/unpacked" &&
        sed -i "s/^Version: .*/Version: $version+1/; s/(= $version)/(= $version+1)/" \
            "$T/unpacked/DEBIAN/control" &&
        # A new release changes the files that are installed, too.
        { [ "$name" != client ] ||
            echo "# of the new release" >> "$T/unpacked/usr/share/rgpu/etc/rgpu.conf"; } &&
        (cd "$T/unpacked" && find . -type f ! -path './DEBIAN/*' -printf '%P\0' |
            xargs -0 md5sum > DEBIAN/md5sums) &&
        dpkg-deb --root-owner-group -b "$T/unpacked" "$machine/newer" > /dev/null ||
        bail "cannot make a newer rgpu-$name"
    rm -rf "$T/unpacked"
done
machine 5 'cp /etc/rgpu/rgpu.conf /root/mine
    cat > /usr/local/bin/long_job <<END
#!/bin/sh
vector_add > /dev/null && echo first && touch /tmp/has || exit 3
until [ -e /tmp/upgraded ]; do sleep 0.2; done
vector_add > /dev/null && echo second
END
    chmod 755 /usr/local/bin/long_job
    systemctl show -p MainPID --value rgpu-spawner rgpud > /root/pids'
machine 20 'cd /tmp && runuser -u alice -- sbatch -t 10 --gres=rgpu:1 -o /tmp/out --wrap long_job'
running() { machine 10 'test -e /tmp/has'; [ "$rc" = 0 ]; }
ok "a job runs" wait_for 60 running || { machine 10 'cat /tmp/out; squeue'; diag "$out$err"; }
machine 300 'apt-get -q -y install --no-install-recommends /newer/*.deb'
is "$rc" 0 "an upgrade below it" || diag "$(tail -n 20 <<< "$out$err")"
machine 20 'systemctl show -p MainPID --value rgpu-spawner rgpud | paste /root/pids - |
    awk "NF {print (\$1 == \$2 ? \"goes on\" : \"new\")}"; systemctl is-active rgpu-spawner rgpud'
is "$(tr '\n' ' ' <<< "$out")" "goes on new active active " \
    "... restarts rgpud, and leaves the spawner of the job's workers alone"
machine 10 'touch /tmp/upgraded'
ended() { machine 10 'squeue -h'; [ -z "$out" ]; }
wait_for 60 ended
machine 10 'cat /tmp/out'
is "$out" "first
second" "... and the job uses its GPU to its end"
machine 10 'cmp /etc/rgpu/rgpu.conf /root/mine; dpkg-query -W -f "\${Version}" rgpu-server'
is "$out" "$version+1" "... and rgpu.conf is as its owner has written it"
job --gres=rgpu:1 vector_add
is "$rc" 0 "a new job runs with the new release" || diag "$out$err"

# --- removed, and purged

machine 60 'rgpu slurm setup --undo && systemctl disable --now rgpu-sync.timer &&
    systemctl restart slurmctld slurmd'
is "$rc" 0 "rgpu slurm setup --undo" || diag "$out$err"
ok "... Slurm runs without rgpu again" wait_for 60 up || diag "$out$err"
machine 300 'apt-get -q -y remove "rgpu-*"'
is "$rc" 0 "the packages are removed" || diag "$(tail -n 20 <<< "$out$err")"
machine 20 'pgrep -a rgpu; cmp /etc/rgpu/rgpu.conf /root/mine'
is "$out" "" "... with what ran, and without rgpu.conf, which stays"
machine 300 'apt-get -q -y purge "rgpu-*"
    rm -rf /root/mine /root/pids /usr/local/bin/long_job /tmp/*'
is "$rc" 0 "... and purged" || diag "$(tail -n 20 <<< "$out$err")"
# apt has left what the packages depend on.
machine 300 'apt-get -q -y autoremove --purge'
state > "$T/after"
is "$(diff "$T/before" "$T/after" | grep -E '^[<>]')" "" "nothing is left of them"
machine 10 'systemctl --failed --no-legend --plain; ls /etc/systemd/system/*.wants | grep rgpu'
is "$out" "" "no unit is" ||
    { machine 20 'journalctl -u rgpu-sync --no-pager | tail -n 30'; diag "$out"; }
done_testing
