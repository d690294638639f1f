#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The RPM packages: built twice to equal bytes, judged by rpmlint, split as Debian's are; installed
# in a copy of this machine's files, where a program uses a GPU through them, and removed. As root;
# an hour of a processor without ccache, most of it one build. RGPU_TEST_RPMS=FOLDER has packages.
. "$(dirname "$0")/../lib/tap.sh"

[ "$(id -u)" = 0 ] || skip_all "only root can install packages"
for tool in rpmbuild rpmlint find-debuginfo eu-strip rpm2cpio cpio; do
    command -v $tool > /dev/null ||
        skip_all "$tool is missing: apt-get install rpm rpmlint debugedit elfutils cpio"
done
unshare -m true 2> /dev/null || skip_all "no mount namespaces here"
cd "$root" || exit 1
names="client slurm server softgpu doc"

# --- built

packages=${RGPU_TEST_RPMS:-$build/rpm/RPMS}
if [ -z "${RGPU_TEST_RPMS:-}" ]; then
    command -v ccache > /dev/null && export RGPU_CXX="${RGPU_CXX:-ccache g++}"
    try 7000 make --no-print-directory rpm O="$build"
    is "$rc" 0 "make rpm" || bail "$(tail -n 20 <<< "$out") $(tail -n 20 <<< "$err")"
    mkdir "$T/first" && mv "$packages"/*/*.rpm "$T/first"
    try 7000 env TZ=Asia/Tokyo LC_COLLATE=C.UTF-8 sh -c 'umask 027; exec "$@"' sh \
        make --no-print-directory rpm O="$build"
    is "$rc" 0 "make rpm again" || diag "$(tail -n 20 <<< "$out$err")"
    for name in "$T"/first/*.rpm; do
        ok "... gives the bytes of $(basename "$name")" cmp "$name" "$packages"/*/"${name##*/}"
    done
    rm -rf "$T/first"
else
    skip "RGPU_TEST_RPMS has them" 2
fi
version=$(sed -n 's/^AC_INIT(\[rgpu\], \[\(.*\)\])$/\1/p' configure.ac)
file() { echo "$packages"/*/"rgpu-$1-$version"-[0-9]*.rpm; }
for name in $names; do
    ok "rgpu-$name is there" test -s "$(file "$name")"
done
for name in client slurm server softgpu; do
    ok "... with its debug symbols apart" test -s "$(file "$name-debuginfo")"
done
try 300 rpmlint -c contrib/rpm/rpmlint.toml "$packages"/*/*.rpm contrib/rpm/rgpu.spec
like "$rc $out" '^0 .* 0 errors, 0 warnings' "rpmlint has neither errors nor warnings" ||
    diag "$out$err"
try 100 rpmlint "$packages"/*/*.rpm contrib/rpm/rgpu.spec
unlike "$out" ' 0 errors' "... which it has without our list"

# --- what is in them

is "$(rpm -qp --requires "$(file slurm)" | grep '^slurm')" \
    "slurm = $(PATH=$PATH:/usr/sbin slurmd -V | sed 's/^[^0-9]*//')" \
    "rgpu-slurm needs the release of Slurm it was built for"
unlike "$(rpm -qp --provides "$(file client)" "$(file softgpu)" "$(file slurm)")" '\.so' \
    "no package offers a library to others"
like "$(rpm -qp --qf '[%{FILEFLAGS:fflags} %{FILENAMES}\n]' "$(file client)")" \
    $'(^|\n)cn /etc/rgpu/rgpu.conf' "an upgrade leaves a changed rgpu.conf alone"

# Debian's lists, with these packages' folders in the place of Debian's.
of_debian()  # NAME: what debian/ puts into rgpu-NAME, as patterns
{
    cat "debian/rgpu-$1.install" "debian/rgpu-$1.manpages" 2> /dev/null |
        sed 's|^debian/tmp/||; s|^usr/lib/\*/slurm-wlm|usr/lib64/slurm|
            s|^usr/lib/\*|usr/lib64|; s|^lib/systemd|usr/lib/systemd|
            s|zsh/vendor-completions|zsh/site-functions|
            s|^usr/share/rgpu/etc/rgpu.conf|etc/rgpu/rgpu.conf|'
    [ ! -e "debian/rgpu-$1.sysusers" ] || echo usr/lib/sysusers.d/rgpu.conf
}
elsewhere()  # NAME: files of the package that Debian has in none or in another one
{
    local path pattern
    rpm -qp --qf '[%{FILEMODES:perms} %{FILENAMES}\n]' "$(file "$1")" | grep -v '^d' |
        sed 's/^[^ ]* .//; /^usr\/lib\/.build-id/d; /^usr\/share\/licenses/d; s/\.gz$//' |
        while read -r path; do
            while read -r pattern; do
                # shellcheck disable=SC2053 # it is a pattern
                [[ $path == $pattern || $path == $pattern/* ]] && continue 2
            done < <(of_debian "$1")
            echo "$path"
        done
}
for name in $names; do
    is "$(elsewhere "$name")" "" "rgpu-$name has files of Debian's rgpu-$name only"
done
mkdir "$T/all"
for name in "$packages"/*/*.rpm; do (cd "$T/all" && rpm2cpio "$name" | cpio -idum --quiet); done
debug() { readelf -SW "$1" | grep -c '\.debug_info'; }
is "$(debug "$T/all/usr/sbin/rgpud")" 0 "rgpud itself has no symbols for debuggers"
is "$(debug "$T"/all/usr/lib/debug/usr/sbin/rgpud-*.debug)" 1 "... its own package has them"
is "$(grep -rl "$root" "$T/all")" "" "no file names the folder that it was built in"
rm -rf "$T/all"

# --- installed: a copy of this machine's files, in memory, with the packages in it

machine=$T/machine
mkdir -p "$T/memory" "$machine"
mount -t tmpfs tmpfs "$T/memory" || bail "no tmpfs"
cleanup_do umount "$T/memory"
mkdir "$T/memory/upper" "$T/memory/work"
# A chroot would not do: rgpu-spawner enters mount namespaces, and so leaves it.
start machine unshare -m bash -c 'set -e
    mount -t overlay overlay -o "lowerdir=/,upperdir=$0/memory/upper,workdir=$0/memory/work" \
        "$0/machine"
    cd "$0/machine"
    mount -t proc proc proc && mount --rbind /dev dev && mount --rbind /sys sys
    mkdir packages && mount -t tmpfs tmpfs packages && mkdir packages/old
    pivot_root . packages/old && cd / && umount -l /packages/old && touch /packages/ready
    exec sleep infinity' "$T"
machine_pid=$pid
inside() { try "$1" nsenter -t "$machine_pid" -m env HOME=/root "${@:2}"; }
ready() { inside 5 test -e /packages/ready; [ "$rc" = 0 ]; }
wait_for 10 ready || skip_all "no overlay of / here: $(tail -n 1 "$T/machine.log")"
machine=/proc/$machine_pid/root
changed() { (cd "$T/memory/upper" && find . ! -type d ! -path './root/.rpmdb/*' \
    ! -path './etc/*shadow*' ! -path './etc/passwd*' ! -path './etc/group*' \
    ! -path './etc/.pwd.lock' ! -path './var/lib/rpm/*' | sort); }
# systemd does not run in there: what it would be asked for is written down.
mkdir -p "$machine/run/systemd/system"
printf '#!/bin/sh\necho "$*" >> /asked\n' > "$machine/usr/bin/systemctl"
chmod 755 "$machine/usr/bin/systemctl"
for name in $names; do cp "$(file "$name")" "$machine/packages/"; done
changed > "$T/before"

# --nodeps: rpm knows nothing of what Debian has installed.
inside 100 sh -c 'rpm -i --nodeps /packages/*.rpm'
is "$rc" 0 "rpm installs them" || bail "$out$err"
inside 10 rgpu --version
like "$out" "^rgpu $version \(commit [0-9a-f]{12}\)$" "rgpu --version has the commit" || diag "$err"
inside 10 sh -c 'getent passwd rgpu | cut -d: -f6,7'
is "$out" "/var/lib/rgpu:/usr/sbin/nologin" "rgpud has its account"
control=$(free_port) data=$(free_port)
cat > "$machine/etc/rgpu/rgpu.conf" <<END
[auth]
method = "none"
[[server]]
name = "here"
address = "127.0.0.1:$control"
[rgpud]
name = "here"
listen = "127.0.0.1"
control_port = $control
data_port = $data
driver = "softgpu"
worker_user = "root"
END
install "$build/cuda/vector_add-static" "$machine/usr/bin/vector_add" ||
    bail "no program: make cuda"
start rgpud nsenter -t "$machine_pid" -m rgpud
rgpud_pid=$pid
listed() { inside 20 rgpu list; [[ $out =~ "2 of 2 GPUs free" ]]; }
ok "rgpud lends the software GPU" wait_for 30 listed || diag "$out$err$(tail "$T/rgpud.log")"
inside 60 rgpu run -n 1 -- vector_add
is "$rc" 0 "a CUDA program runs on it" || diag "$out$err$(tail "$T/rgpud.log")"
inside 60 rgpu run -n 1 -- nvidia-smi -L
like "$out" '^GPU 0: rgpu software GPU' "... and nvidia-smi shows it" || diag "$err"
stop "$rgpud_pid"

: > "$machine/asked"
inside 100 sh -c 'rpm -U --nodeps --replacepkgs /packages/*.rpm'
is "$rc" 0 "an upgrade" || diag "$out$err"
like "$(cat "$machine/asked")" 'try-restart rgpud.service' "... restarts rgpud"
unlike "$(cat "$machine/asked")" '(stop|restart|disable).*(spawner|sync|preempt)' \
    "... and leaves the spawner of jobs' workers and the timers alone"
like "$(cat "$machine/etc/rgpu/rgpu.conf")" "address = \"127.0.0.1:$control\"" \
    "... and rgpu.conf is as its owner has written it"
: > "$machine/asked"
inside 100 sh -c 'rpm -e --nodeps $(rpm -qa "rgpu-*")'
is "$rc" 0 "they are removed" || diag "$out$err"
like "$(cat "$machine/asked")" 'disable --now rgpud.service rgpu-spawner.service' \
    "... with what ran"
is "$(ls "$machine/etc/rgpu") $(grep -c "^address.*:$control" "$machine"/etc/rgpu/*)" \
    "rgpu.conf.rpmsave 1" "... a changed rgpu.conf is kept aside"
rm -rf "$machine"/etc/rgpu "$machine/asked" "$machine/usr/bin/vector_add" "$machine/var/lib/rgpu" \
    "$machine/run/rgpu"
changed > "$T/after"
is "$(diff "$T/before" "$T/after" | grep '^[<>]')" "" "... and nothing else is left"
done_testing
