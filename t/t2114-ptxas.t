#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A program whose GPUs are software GPUs finds a stand-in for ptxas where XLA, JAX and Triton look,
# and need set nothing by hand.
. "$(dirname "$0")/lib/tap.sh"
. "$(dirname "$0")/lib/rgpud.sh"

rgpud gpu1
clients "gpu1=$control"
unset XLA_FLAGS CUDA_ROOT TRITON_PTXAS_PATH TRITON_PTXAS_BLACKWELL_PATH
remote() { try 60 "$build/bin/rgpu" run --wait 20s -- "$@"; }

# --- the stand-in

ptxas=$build/lib/ptx/bin/ptxas
printf '.version 7.0 // no name of a file says what it is' > "$T/kernel"
try 10 "$ptxas" --version
like "$rc:$out" "^0:.*release [0-9]+\\.[0-9]+, V[0-9]+\\.[0-9]+\\.[0-9]+" "it has a version"
ok "XLA's words" "$ptxas" "$T/kernel" -o "$T/xla" -arch=sm_90 --warn-on-spills -v
ok "Triton's words" "$ptxas" -lineinfo -v --gpu-name=sm_80 "$T/kernel" -o "$T/triton"
for who in xla triton; do
    ok "$who: the PTX comes out, with a NUL behind it" \
        cmp "$T/$who" <(cat "$T/kernel" && printf '\0')
done
try 10 "$ptxas" --gpu-name=sm_80 -o "$T/none"
is "$rc:$err" "2:softgpu-ptxas: FILE -o OUTPUT is wanted" "no input is an error"

# --- where it is looked for

remote sh -c 'echo "$CUDA_ROOT|$TRITON_PTXAS_PATH|$TRITON_PTXAS_BLACKWELL_PATH|$XLA_FLAGS"'
root_of=$build/lib/ptx
is "$rc:${out%|*}" "0:$root_of|$ptxas|$ptxas" "JAX and Triton find it" || diag "$err"
like "$out" "--xla_gpu_cuda_data_dir=$root_of\$" "XLA finds it"
XLA_FLAGS=--xla_dump_to=/x CUDA_ROOT=/mine remote sh -c 'echo "$CUDA_ROOT|$XLA_FLAGS"'
like "$out" "^/mine\\|--xla_dump_to=/x .*--xla_gpu_cuda_data_dir=" \
    "what the program's user says stays"
XLA_FLAGS=--xla_gpu_cuda_data_dir=/mine remote sh -c 'echo "$XLA_FLAGS"'
is "$out" "--xla_gpu_cuda_data_dir=/mine" "... and who names a toolkit gets no flags of ours"

RGPU_SOFTGPU_NAME="Some GPU" rgpud gpu2
clients "gpu2=$control"
remote sh -c 'echo "$CUDA_ROOT|$TRITON_PTXAS_PATH|$XLA_FLAGS"'
is "$rc:$out" "0:||" "GPUs of another name get their own ptxas" || diag "$err"
done_testing
