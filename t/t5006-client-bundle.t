#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# make client-bundle: rgpu in a root that has a C library, the bundle, and the user's program;
# nothing else.
. "$(dirname "$0")/lib/tap.sh"
. "$(dirname "$0")/lib/rgpud.sh"
[ "$(id -u)" = 0 ] || skip_all "chroot needs root"
unshare -m true 2> /dev/null || skip_all "no mount namespaces here"
program=$build/cuda/vector_add-static
[ -x "$program" ] || skip_all "$program is not built; run make cuda"

ok "the bundle is packed" "$root/contrib/client-bundle" "$build" "$T/bundle.tar.gz"
clean=$T/clean
mkdir -p "$clean"/{opt,etc,proc,dev,tmp,lib64}
tar -C "$clean/opt" -xzf "$T/bundle.tar.gz"
ok "... with a page that says how to use it" test -s "$clean/opt/rgpu-client/README"
# glibc, as every root has it that runs programs of others.
mkdir -p "$clean/lib/x86_64-linux-gnu"
cp -L /lib64/ld-linux-x86-64.so.2 "$clean/lib64/"
cp -L /lib64/ld-linux-x86-64.so.2 "$clean/lib/x86_64-linux-gnu/"
for name in libc libm libdl librt libpthread libresolv; do
    cp -L /lib/x86_64-linux-gnu/$name.so.? "$clean/lib/x86_64-linux-gnu/"
done
# The program's own: nvcc links libstdc++ of the machine that it runs on.
mkdir "$clean/opt/program"
cp "$program" "$clean/opt/program/"
ldd "$program" | awk '$3 ~ /libstdc|libgcc/ {print $3}' |
    xargs -r -I{} cp -L {} "$clean/opt/program/"
cp /bin/true "$clean/opt/program/"
is "$(find "$clean" -path "$clean/opt" -prune -o -type f -print | wc -l)" 8 \
    "the root holds the C library and the bundle alone"

(umask 077; head -c 32 /dev/urandom > "$T/key"; cp "$T/key" "$clean/etc/key")
auth="method = \"key\"
key_file = \"$T/key\""
cat > "$T/enter" <<'END'
mount -t proc proc "$1/proc" && touch "$1/dev/null" && mount --bind /dev/null "$1/dev/null" &&
    root=$1 && shift &&
    exec env -i RGPU_CONF=/etc/rgpu.conf LD_LIBRARY_PATH=/opt/program /usr/sbin/chroot "$root" "$@"
END
inside() { try 60 unshare -m sh "$T/enter" "$clean" "$@"; }
pool()
{
    {
        printf '[auth]\nmethod = "key"\nkey_file = "/etc/key"\n'
        printf '[[server]]\nname = "%s"\naddress = "127.0.0.1:%s"\n' "$1" "$control"
    } > "$clean/etc/rgpu.conf"
}
rgpud plain
pool plain
inside /opt/rgpu-client/bin/rgpu list
like "$out" '2 of 2 GPUs free' "rgpu list" || diag "$err"
inside /opt/rgpu-client/bin/rgpu run -n 1 -- /opt/program/vector_add-static
is "$rc" 0 "rgpu run: a program on a GPU outside the root" || diag "$out$err"
inside /opt/rgpu-client/bin/rgpu run -n 3 -- /opt/program/true
is "$rc" 121 "... and its exit statuses"

rgpud sealed 'encrypt = true'
pool sealed
inside /opt/rgpu-client/bin/rgpu run -n 1 -- /opt/program/vector_add-static
is "$rc" 0 "over an encrypted connection, with the bundle's own OpenSSL" || diag "$out$err"
rm -r "$clean"/opt/rgpu-client/lib/rgpu/interpose/openssl
inside /opt/rgpu-client/bin/rgpu run -n 1 -- /opt/program/vector_add-static
like "$rc $err" '^[1-9].*no OpenSSL here' "... which it needs"
done_testing
