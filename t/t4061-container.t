#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Containers in jobs: srun --container with crun, enroot's hook, and other runtimes. The job's GPUs
# are inside, whatever LD_LIBRARY_PATH the image sets.
. "$(dirname "$0")/lib/tap.sh"
. "$(dirname "$0")/lib/slurm.sh"
command -v crun > /dev/null || skip_all "crun is not installed: contrib/install-deps-debian.sh"
gcc -O1 -o "$T/see_gpus" "$root/t/lib/see_gpus.c" -ldl || bail "see_gpus.c does not compile"
# A driver as some images have it: of another version than the host's, which finds nothing.
gcc -O1 -shared -fPIC -Wl,-soname,libcuda.so.1 -o "$T/libcuda.so.1" -x c \
    - <<< 'int cuInit(unsigned f) { return 803; } int cuDeviceGetCount(int *n) { return 803; }'

# An image as small as it gets: a shell, some programs, and the libraries that they and our programs
# need.
image()  # DIRECTORY
{
    local program file
    mkdir -p "$1"/{bin,proc,sys,dev,tmp,lib64,usr/lib/x86_64-linux-gnu,image/lib} &&
        ln -s usr/lib "$1/lib"
    for program in /bin/sh /usr/bin/env /bin/sleep /bin/cat /bin/ls "$T/see_gpus" \
        "$build/cuda/vector_add-static" "$interpose"/lib*.so.1; do
        case $program in */lib*) ;; *) cp -L "$program" "$1/bin/" ;; esac
        for file in $(ldd "$program" | grep -oE '/[^ ]+'); do
            case $file in
            */ld-linux*) cp -L "$file" "$1/lib64/" ;;
            *) cp -L "$file" "$1/usr/lib/x86_64-linux-gnu/" ;;
            esac
        done
    done
}

# config.json, with the host's network and the environment given: bundle DIRECTORY VARIABLE=VALUE...
bundle()
{
    local dir=$1
    shift
    mkdir -p "$dir" && (cd "$dir" && rm -f config.json && crun spec) &&
        python3 "$py/oci_config.py" "$dir/config.json" "$@"
}

image "$T/plain/rootfs"
[ "$(id -u)" != 0 ] || chroot "$T/plain/rootfs" /bin/sh -c true ||
    bail "the image that was made is no good"
bundle "$T/plain"
cluster_up
unset RGPU_LEASE LD_LIBRARY_PATH
[ "$(rgpu list | tail -n 1)" = "4 of 4 GPUs free" ] ||
    skip_all "the pool here is not one of four GPUs: $(rgpu list | tail -n 1)"
try 30 "$cluster/libexec/crun" run --bundle "$T/plain" "rgpu-try-$$"
[ "$rc:$out" = "0:it runs" ] || skip_all "crun runs no container here: $(tail -n 1 <<< "$err")"

# see NAME SRUN-OPTIONS...: runs see_gpus in the bundle.
see() { local name=$1; shift; try 60 srun --container="$T/$name" "$@"; }

# --- srun --container

before=$(cat "$T/plain/config.json")
see plain --gres=rgpu:2 sh -c 'cat "$RGPU_LEASE"; exec see_gpus'
uuids=$(grep -oE '"uuid": *"[^"]*' <<< "$out" | grep -oE 'GPU-.*' | xargs)
is "$rc:$(tail -n 1 <<< "$out")" "0:GPUs 2 in /run/rgpu/libcuda.so.1: $uuids nvml 2" \
    "a bundle in a job with two GPUs sees these two" || diag "$out$err"
see plain --gres=rgpu:1 vector_add-static
like "$rc:$out" '^0:.*rgpu software GPU' "a CUDA program runs in it" || diag "$out$err"
see plain --gres=rgpu:2 --rgpu-bind=map:1 sh -c 'cat "$RGPU_LEASE"; exec see_gpus'
uuid=$(grep -oE '"uuid": *"[^"]*' <<< "$out" | grep -oE 'GPU-.*' | tail -n 1)
is "$rc:$(tail -n 1 <<< "$out")" "0:GPUs 1 in /run/rgpu/libcuda.so.1: $uuid nvml 2" \
    "a task sees those of its GPUs that are bound to it" || diag "$out$err"
see plain -N 2 -n 2 --gres=rgpu:2 --rgpu-bind=single:1 see_gpus
is "$rc:$(grep -oE 'GPU-[^ ]*' <<< "$out" | sort -u | wc -l):$(grep -c 'GPUs 1 ' <<< "$out")" \
    0:2:2 "on two nodes" || diag "$out$err"
if slurm_is 24.11; then  # 22.05 takes one task on a node
    see plain -N 1 -n 2 --gres=rgpu:2 --rgpu-bind=single:1 see_gpus
    is "$rc:$(grep -oE 'GPU-[^ ]*' <<< "$out" | sort -u | wc -l):$(grep -c 'GPUs 1 ' <<< "$out")" \
        0:2:2 "two tasks on a node" || diag "$out$err"
else
    skip "this Slurm runs one task of a container's step on a node"
fi
see plain --gres=rgpu:2 sh -c 'echo /dev/nvidia[0-9c]*; exec nvidia-smi -L'
like "$rc:$out" '^0:/dev/nvidia0 /dev/nvidia1 /dev/nvidiactl
GPU 0: .*GPU 1: ' "it has device files and nvidia-smi" || diag "$out$err"
see plain --gres=rgpu:1 sh -c 'echo "$XLA_FLAGS|$CUDA_ROOT"; "$TRITON_PTXAS_PATH" --version'
like "$rc:$out" '^0:.*--xla_gpu_cuda_data_dir=/run/rgpu/ptx\|/run/rgpu/ptx
Cuda compilation tools' "and the software GPU's ptxas" || diag "$out$err"
see plain see_gpus
like "$rc:$out" '^1:no libcuda.so.1|^1:.*file too short' \
    "a bundle in a job without GPUs sees none" || diag "$out$err"
see plain env
unlike "$out" 'RGPU_LEASE|/run/rgpu|interpose' "and nothing of rgpu" || diag "$err"
is "$(cat "$T/plain/config.json")" "$before" "the user's config.json is as it was"
is "$(find "$T/plain/rootfs/run" "$T/plain/rootfs/usr/lib" -size 0 -o -name rgpu |
    sed "s|$T/plain/rootfs||" | sort | xargs)" \
    "/run/rgpu /usr/lib/x86_64-linux-gnu/libcuda.so.1 /usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1" \
    "the image has a few empty mount points more"
see plain --gres=rgpu:1 env RGPU_TRANSPORT=shm see_gpus
like "$rc:$out" '^0:GPUs 1 ' "shared memory goes through" || diag "$out$err"

# An image with a driver of its own, which its environment and its entry point put first.
image "$T/own/rootfs"
cp "$T/libcuda.so.1" "$T/own/rootfs/image/lib/libcuda.so.1.0"
ln -s libcuda.so.1.0 "$T/own/rootfs/image/lib/libcuda.so.1"
mkdir -p "$T/own/rootfs/etc" && echo /image/lib > "$T/own/rootfs/etc/ld.so.conf" &&
    /sbin/ldconfig -r "$T/own/rootfs" 2> /dev/null
bundle "$T/own" LD_LIBRARY_PATH=/image/lib NVIDIA_VISIBLE_DEVICES=all
see own see_gpus
is "$rc:$out" "1:no GPU in /image/lib/libcuda.so.1: cuInit 803" \
    "the image has a driver of its own" || diag "$err"
see own --gres=rgpu:2 see_gpus
like "$rc:$out" '^0:GPUs 2 in /run/rgpu/libcuda.so.1' "a bundle that sets LD_LIBRARY_PATH" ||
    diag "$out$err"
see own --gres=rgpu:2 sh -c 'LD_LIBRARY_PATH=/image/lib exec see_gpus'
like "$rc:$out" '^0:GPUs 2 in /image/lib/libcuda.so.1:.* nvml 2$' \
    "a program that sets LD_LIBRARY_PATH" || diag "$out$err"
see own --gres=rgpu:2 sh -c 'unset LD_LIBRARY_PATH; exec see_gpus'
like "$rc:$out" '^0:GPUs 2 in (/usr)?(/lib/x86_64-linux-gnu|/image/lib)/libcuda.so.1:.* nvml 2$' \
    "a program without LD_LIBRARY_PATH" || diag "$out$err"
see own --gres=rgpu:1 env
like "$out" 'NVIDIA_VISIBLE_DEVICES=void$' \
    "NVIDIA's own hooks are told that there is nothing for them"

printf '#!/bin/sh\nsee_gpus\n' > "$T/job.sh"
submitted --gres=rgpu:2 --container="$T/plain" -o "$T/batch.out" "$T/job.sh"
ok "a batch job in a container ends well" wait_for 60 is_state "$job" COMPLETED
like "$(cat "$T/batch.out")" '^GPUs 2 in /run/rgpu/libcuda.so.1' "and had its GPUs"

# --- how it ends

alive() { pgrep -f "^/bin/sh -c : $1; " > /dev/null; }
gone() { ! alive "$1"; }
see_long()
{
    start "long.$1" srun --container="$T/plain" --gres=rgpu:1 /bin/sh -c \
        ": $1; trap 'exit 1' TERM; see_gpus; while :; do sleep 1; done"
}
sees() { grep -q '^GPUs 1' "$T/long.$1.log"; }
mark=rgpu-t4061-$$
# Slurm 22.05 gives them nothing by which minicluster down would know them.
end_marked() { local pid; for pid in $(pgrep -f "^/bin/sh -c : $mark"); do kill -9 "$pid"; done; }
cleanup_do end_marked
see_long $mark-a
ok "a container that stays" wait_for 60 sees $mark-a
scancel "$(squeue -h -t RUNNING -o %i)"
ok "scancel ends it" wait_for 60 gone $mark-a
ok "and its GPU is free" wait_for 60 all_free
see_long $mark-b
ok "another" wait_for 60 sees $mark-b
# The cancelled job may be completing still.
stepd=$(stepds "$(squeue -h -t RUNNING -o %i)" | head -n 1)
kill -9 "$stepd"
ok "its programs end with a killed slurmstepd" wait_for 60 gone $mark-b
ok "and its GPU is free" wait_for 90 all_free
kill -9 "$pid"  # srun would wait for a minute

# --- enroot's hook, called as enroot calls it; and runtimes that are told by JSON, here bubblewrap

hook=$T/97-rgpu.sh
sed "s|@bindir@|$build/bin|; s|@rgpu_conf@|$RGPU_CONF|" "$root/etc/enroot/97-rgpu.sh.in" > "$hook"
chmod 755 "$hook"
printf 'PATH=/bin\nNVIDIA_VISIBLE_DEVICES=all\nLD_LIBRARY_PATH=/image/lib' > "$T/environ"
: > "$T/fstab"
export ENROOT_ROOTFS=$T/own/rootfs ENROOT_ENVIRON=$T/environ ENROOT_MOUNTS=$T/fstab
try 20 "$hook"
is "$rc:$(cat "$T/fstab"):$(wc -l < "$T/environ")" "0::2" \
    "enroot's hook leaves a container of no job as it is" || diag "$err"

if try 20 bwrap --bind "$T/own/rootfs" / --proc /proc --dev /dev /bin/sh -c 'echo it runs' &&
    [ "$rc:$out" = "0:it runs" ]; then
    program="'$hook' && exec python3 '$py/in_bwrap.py' '$T/own/rootfs' '$T/fstab' '$T/environ' "
    program+="/bin/sh -c 'see_gpus; LD_LIBRARY_PATH=/image/lib see_gpus'"
    try 60 srun --gres=rgpu:2 sh -c "$program"
    is "$rc:$(grep -oE 'GPUs 2 in [^ ]*' <<< "$out" | xargs)" \
        "0:GPUs 2 in /run/rgpu/libcuda.so.1: GPUs 2 in /image/lib/libcuda.so.1:" \
        "what enroot's hook names puts a job's GPUs into a container" ||
        diag "$out$err$(cat "$T/fstab" "$T/environ")"
    like "$(grep -E '^(LD_LIBRARY_PATH|PATH|NVIDIA_VISIBLE_DEVICES)=' "$T/environ" | xargs)" \
        'LD_LIBRARY_PATH=/run/rgpu:/image/lib PATH=/bin:/run/rgpu NVIDIA_VISIBLE_DEVICES=void' \
        "the image's own LD_LIBRARY_PATH is behind, and nvidia-smi last in PATH" ||
        diag "$(cat "$T/environ")"
    try 60 srun --gres=rgpu:2 env -u RGPU_LEASE sh -c ": > '$T/fstab'; '$hook' && cat '$T/fstab'"
    like "$rc:$out" \
        "^0:.*/run/cn[12]/[0-9]+/lease.json /run/rgpu/lease.json none x-create=file,bind,ro" \
        "also where the plugin that starts it comes before ours" || diag "$err"
    program="rgpu container '$T/plain/rootfs' --json > '$T/parts.json' && exec python3 "
    program+="'$py/in_bwrap.py' '$T/plain/rootfs' '$T/parts.json' - see_gpus"
    try 60 rgpu run -n 1 -- sh -c "$program"
    like "$rc:$out" '^0:GPUs 1 in /run/rgpu/libcuda.so.1' \
        "rgpu container --json tells any runtime, outside Slurm too" || diag "$out$err"
else
    skip "bubblewrap runs no container here: ${err:-it is not installed}" 4
fi

# --- what is wrong is named

unset ENROOT_MOUNTS
try 20 rgpu container --enroot
is "$rc:$err" "1:rgpu: ENROOT_MOUNTS is not set: --enroot is for a hook (hooks.d) of enroot" \
    "--enroot outside a hook"
for wrong in '' '--oci a b' '--enroot x' '--oci a --enroot'; do
    # shellcheck disable=SC2086 # its words
    try 20 rgpu container $wrong
    is "$rc" 2 "rgpu container $wrong is a wrong command line" || diag "$err"
done
try 20 env RGPU_LEASE="$T/none.json" rgpu container "$T/plain/rootfs"
is "$rc:$err" "1:rgpu: lease file $T/none.json: No such file or directory" "a lease that is gone"
try 20 env RGPU_LEASE="$RGPU_CONF" rgpu container --oci "$T"
is "$rc:$err" "1:rgpu: $T/config.json: No such file or directory" "a bundle that is none"
mkdir "$T/bad" && echo '{"root": 1' > "$T/bad/config.json"
try 20 env RGPU_LEASE="$RGPU_CONF" rgpu container --oci "$T/bad"
like "$rc:$err" "^1:rgpu: $T/bad/config.json: .*parse error" "a config.json that is none"
is "$(cat "$T/bad/config.json")" '{"root": 1' "stays as it was"
try 20 env -u RGPU_LEASE rgpu container "$T/plain/rootfs"
is "$rc:$out$err" "0:" "without a lease there is nothing to do"
done_testing
