#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What goes into programs, in a root of Debian 11 (glibc 2.31): a CUDA program there uses a GPU
# through it, and nvidia-smi shows the GPU. As root; two minutes, with Debian's archive.
. "$(dirname "$0")/../lib/tap.sh"
. "$(dirname "$0")/../lib/cuda.sh"
. "$(dirname "$0")/../lib/rgpud.sh"

[ "$(id -u)" = 0 ] || skip_all "only root can make another root"
command -v debootstrap > /dev/null ||
    skip_all "debootstrap is missing: apt-get install debootstrap"
unshare -m true 2> /dev/null || skip_all "no mount namespaces here"
objects=$build/obj/src/glibc
[ -e "$objects/start.o" ] || skip_all "$objects/start.o is not there: run make"

older=$T/older
inside() { try "$1" "$root/contrib/debian-root" --suite bullseye --bare "$older" "${@:2}"; }
inside 900 true
[[ $err != *"debootstrap failed"* ]] ||
    skip_all "debootstrap makes no bullseye: $(tail -n 1 <<< "$err")"
is "$rc" 0 "a root of Debian 11" || bail "$(tail -n 5 <<< "$out$err")"
inside 10 getconf GNU_LIBC_VERSION
is "$out" "glibc 2.31" "its glibc is older than this product's build"

# A program for it is linked as the product is: nvcc here has this system's glibc alone. NVIDIA
# builds cudart for old systems.
cuda_program "$root/contrib/examples/vector_add.cu" -cudart shared \
    -gencode "arch=compute_80,code=[sm_80,compute_80]" -Xcompiler -static-libstdc++,-static-libgcc \
    "$objects"/{older_symbols,newer_functions,start}.o \
    -Xlinker --gc-sections,--no-as-needed,-l:libpthread.so.0,-l:libdl.so.2 ||
    bail "no program: $err"
mkdir -p "$older/opt/rgpu"
cp "$program" "$older/opt/rgpu/vector_add"
cp -a "$interpose" "$build/lib/smi/nvidia-smi" "$older/opt/rgpu/"
inside 20 sh -c 'export LD_LIBRARY_PATH=/usr/local/cuda/lib64
    for file in /opt/rgpu/vector_add /opt/rgpu/nvidia-smi /opt/rgpu/interpose/*.so.1; do
        ldd -r "$file"
    done 2>&1 | grep -E "not found|undefined"'
is "$out" "" "the loader finds all that they need"

rgpud here
clients here="$control"
# A lease's files are this system's: they are copied in, as a container's runtime mounts them.
cat > "$T/enter" <<'END'
#!/bin/bash
set -e
cp -a "$(dirname "$RGPU_LEASE")" "$1/tmp/"
root=$1 debian_root=$2
shift 2
export LD_LIBRARY_PATH=/opt/rgpu/interpose:/usr/local/cuda/lib64
exec "$debian_root" --bare "$root" "$@"
END
chmod 755 "$T/enter"
remote()
{
    try 120 "$build/bin/rgpu" run -n 1 -- "$T/enter" "$older" "$root/contrib/debian-root" "$@"
}
remote /opt/rgpu/vector_add
is "$rc" 0 "a CUDA program there runs on a GPU of a server" || diag "$out$err"
remote /opt/rgpu/nvidia-smi -L
like "$out" '^GPU 0: rgpu software GPU' "nvidia-smi there shows the GPU" || diag "$err"
remote sh -c 'LD_LIBRARY_PATH= /opt/rgpu/nvidia-smi -L'
is "$rc" 12 "... and needs libnvidia-ml.so.1 for that"
done_testing
