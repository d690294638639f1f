#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The build: help, install, and what the shared objects need and export.
. "$(dirname "$0")/lib/tap.sh"
plan 40

cd "$root" || bail "no $root"
try 60 make help
is "$rc" 0 "make help"
for target in all check demo install clean; do
    like "$out" "make $target +[a-z]" "help tells of $target"
done

try 300 make --no-print-directory O="$build" install DESTDIR="$T/dest" prefix=/usr sysconfdir=/etc
is "$rc" 0 "make install DESTDIR" || diag "$out$err"
for file in bin/rgpu sbin/rgpud libexec/rgpu-worker libexec/rgpu-spawner libexec/rgpu-scheduler \
    lib/rgpu/interpose/libcuda.so.1 lib/rgpu/interpose/nccl/libnccl.so.2 \
    lib/rgpu/softgpu/libcuda.so.1 lib/rgpu/softgpu/librgpu-ptx.so \
    lib/rgpu/softgpu/libnvidia-ml.so.1 lib/slurm/spank_rgpu.so lib/slurm/job_submit_rgpu.so; do
    ok "installs $file" test -s "$T/dest/usr/$file"
done
for unit in rgpud.service rgpu-spawner.service rgpu.slice rgpu-sync.service rgpu-sync.timer \
    rgpu-web.service; do
    ok "installs $unit" test -s "$T/dest/usr/lib/systemd/system/$unit"
done
is "$(find "$T/dest" -mindepth 1 -maxdepth 1 -not -name usr -not -name etc)" "" \
    "and nothing elsewhere"
is "$(grep -rlE '@[a-z_]+@' "$T/dest" --include='*.conf' --include='*prolog*' --include='*epilog*' \
    --include='*.service')" "" \
    "installed configuration holds no @name@ that nobody replaced"

missing_pages()  # that a message, a man page or another page names
{
    local page
    grep -rhoE 'doc/[a-z-]+\.md' "$root/src" "$T/dest/usr/share" | sort -u | while read -r page; do
        test -s "$T/dest/usr/share/doc/rgpu/$page" || echo "$page"
    done
}
is "$(missing_pages)" "" "every page that something names is installed"

echo 'NodeName=cn1' > "$T/slurm.conf"
try 60 env RGPU_CONF="$T/dest/etc/rgpu/rgpu.conf" "$T/dest/usr/bin/rgpu" slurm setup --conf \
    "$T/slurm.conf" --lines "$T/dest/usr/share/rgpu/etc" --licences 100
lines="slurm.conf:1: change.* Gres=rgpu:1024.*Licenses=rgpu:100.*"
lines+="PrologSlurmctld=/usr/libexec/rgpu/prolog-slurmctld.*Name=rgpu Count=1024.*"
lines+="/usr/lib/slurm/spank_rgpu.so"
like "$out" "$lines" \
    "rgpu slurm setup finds its lines in what is installed"

needed() { readelf -d "$1" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | sort | tr '\n' ' '; }
exported() { nm -D --defined-only "$1" | awk '{ print $3 }' | sed 's/@.*//'; }

# libm, libpthread and libdl are parts of libc.
is "$(needed "$interpose/libcuda.so.1" | tr ' ' '\n' |
    grep -vE '^(libc|libm|libpthread|libdl|ld-linux-x86-64)\.so\.[0-9]+$|^$')" "" \
    "the interposer needs libc and nothing else"
is "$(exported "$interpose/libcuda.so.1" | grep -v '^cu' | head)" "" \
    "the interposer exports cu* only"
like "$(exported "$interpose/libcuda.so.1")" "cuGetProcAddress_v2" "among them cuGetProcAddress_v2"
is "$(exported "$softgpu/libcuda.so.1" | grep -vE '^(cu|rgpu_softgpu_)' | head)" "" \
    "softgpu exports cu* and its own for rgpu-worker"
unlike "$(needed "$softgpu/libcuda.so.1")" "LLVM" "softgpu's driver starts without LLVM"
is "$(exported "$build/lib/slurm/spank_rgpu.so" |
    grep -vE '^(plugin_|spank_plugin_version|slurm_spank_)' | head)" "" \
    "the SPANK plugin exports what SPANK asks for only"
is "$(exported "$build/lib/slurm/job_submit_rgpu.so" |
    grep -vE '^(plugin_|init|fini|job_submit|job_modify)' | head)" "" \
    "the job_submit plugin exports what Slurm asks for only"

like "$("$build/bin/rgpu" --version)" '^rgpu [0-9.]+( \(commit [0-9a-f]{12}\))?$' \
    "--version says which commit was built, where one is known"
echo "# mine" >> "$T/dest/etc/rgpu/rgpu.conf"
try 300 make --no-print-directory O="$build" uninstall DESTDIR="$T/dest" prefix=/usr sysconfdir=/etc
is "$rc" 0 "make uninstall DESTDIR" || diag "$out$err"
like "$out" "/etc/rgpu/rgpu.conf stays, as it was changed" "... says what stays"
is "$(find "$T/dest" ! -type d)" "$T/dest/etc/rgpu/rgpu.conf" "... and removes everything else"
