#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# contrib/kubernetes/pod.yaml, run by crun as a kubelet would have it run: init container, volumes,
# secret, user and rights are the pod's own; only names of servers and images are ours.
. "$(dirname "$0")/lib/tap.sh"
. "$(dirname "$0")/lib/rgpud.sh"
[ "$(id -u)" = 0 ] || skip_all "only root starts containers of others"
command -v crun > /dev/null || skip_all "crun is not installed: contrib/install-deps-debian.sh"
/usr/bin/python3 -c 'import yaml' 2> /dev/null || skip_all "python3-yaml is not installed"
program=$build/cuda/vector_add-static
[ -x "$program" ] || skip_all "$program is not built; run make cuda"
here=$root/contrib/kubernetes

# --- images: that of the Containerfile, and one with a program

image()  # NAME PROGRAM...
{
    local at=$T/images/$1 file each
    shift
    mkdir -p "$at"/{proc,sys,dev,tmp,opt,lib64,usr/bin,usr/lib/x86_64-linux-gnu}
    ln -s usr/bin "$at/bin" && ln -s usr/lib "$at/lib" && chmod 1777 "$at/tmp"
    for each; do
        cp -L "$each" "$at/usr/bin/"
        for file in $(ldd "$each" | grep -oE '/[^ ]+') \
            /lib/x86_64-linux-gnu/lib{dl,rt,pthread,m,resolv}.so.?; do
            case $file in
            */ld-linux*) cp -L "$file" "$at/lib64/" ;;
            *) cp -L "$file" "$at/usr/lib/x86_64-linux-gnu/" ;;
            esac
        done
    done
}
image rgpu-client /bin/cp
cp "$program" "$T/vector_add"
image program "$T/vector_add" /bin/sh /usr/bin/id /bin/ls
"$root/contrib/client-bundle" "$build" "$T/rgpu-client.tar.gz" > /dev/null || bail "no bundle"
read -r _ packed to <<< "$(grep '^ADD ' "$here/Containerfile")"
ok "the Containerfile adds the bundle" \
    tar -C "$T/images/rgpu-client$to" -xzf "$T/$packed"
ok "... and runs what the init container does" \
    grep -qF "command: $(sed -n 's/^CMD //p' "$here/Containerfile")" "$here/pod.yaml"

# --- a pool, and the pod with its name

mkdir -p "$T/secrets/rgpu-key" "$T/volumes"
(umask 077; head -c 32 /dev/urandom > "$T/secrets/rgpu-key/rgpu.key")
auth="method = \"key\"
key_file = \"$T/secrets/rgpu-key/rgpu.key\""
rgpud gpu1
sed "s|gpu1.example.org:7710|127.0.0.1:$control|" "$here/pod.yaml" > "$T/pod.yaml"

# container NAME [SED]: its exit status is the container's. With SED, of the pod edited so.
container()
{
    mkdir -p "$T/bundle"
    (cd "$T/bundle" && rm -f config.json && crun spec) || bail "no crun spec"
    sed "${2:-}" "$T/pod.yaml" > "$T/this.yaml"
    /usr/bin/python3 "$py/pod_as_oci.py" "$T/this.yaml" "$T/images" "$T/volumes" "$T/secrets" \
        "$1" < "$T/bundle/config.json" > "$T/config.json" || bail "no configuration of $1"
    mv "$T/config.json" "$T/bundle/config.json"
    try 60 "$T/crun" run --bundle "$T/bundle" "rgpu-t5009-$$"
}
# As contrib/minicluster does it: cgroups that are mixed (v1 and v2) stop crun.
cat > "$T/crun" << 'END'
#!/bin/sh
set -- crun --cgroup-manager=disabled "$@"
grep -qs . /sys/fs/cgroup/unified/cgroup.controllers || exec "$@"
exec unshare -m sh -c 'umount /sys/fs/cgroup/unified; exec "$@"' sh "$@"
END
chmod 755 "$T/crun"
container program \
    's|\["/rgpu/bin/rgpu", .*|["/bin/sh", "-c", "id -u; ls /rgpu"]|; s|args: .*|args: []|'
[ "$rc:$out" = 0:1000 ] || skip_all "crun runs no container here: $(tail -n 1 <<< "$err")"
container rgpu-client
is "$rc" 0 "the init container ends well" || diag "$out$err"
container program
is "$rc" 0 "the program computes on a GPU of the pool" || diag "$out$err"
like "$out" 'rgpu software GPU' "... which is a remote one"
container program 's|args: .*|args: ["/bin/sh", "-c", "exit 7"]|'
is "$rc" 7 "its exit status is the container's" || diag "$err"
container program 's|"-n", "1"|"-n", "3"|'
is "$rc" 121 "more GPUs than there are" || diag "$err"
container program 's|args: .*|args: ["/bin/sh", "-c", "echo x > /etc/rgpu-key/rgpu.key"]|'
like "$rc $err" '^2 .*(Read-only|Permission)' "the program cannot write its secret"
clients gpu1="$control"
free() { "$build/bin/rgpu" list | grep -q '2 of 2 GPUs free'; }
ok "all leases have ended" wait_for 20 free
head -c 32 /dev/urandom > "$T/volumes/rgpu-key/rgpu.key"
container program
like "$rc $err" '^1[0-9]+ .*gpu1.*(key|sign|denied|refused)' "a pod with another key gets none"
done_testing
