#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Programs from PyPI and Debian that look for GPUs before they use any, unchanged, in a Slurm job:
# they see the leased GPUs, with no variable set.
. "$(dirname "$0")/../lib/tap.sh"
. "$(dirname "$0")/../lib/slurm.sh"
. "$(dirname "$0")/../lib/python.sh"
[ "$(id -u)" = 0 ] && unshare -m true 2> /dev/null || skip_all "no mount namespaces here"
compgen -G '/dev/nvidia*' > /dev/null && skip_all "this machine has NVIDIA's device files"
cluster_up --rgpud 'softgpu_compute_capability = "13.0"' --rgpud 'softgpu_memory = "4G"'
unset RGPU_LEASE LD_LIBRARY_PATH CUDA_VISIBLE_DEVICES XLA_FLAGS JAX_PLATFORMS

# --- lstopo

if command -v lstopo-no-graphics > /dev/null; then
    try 60 srun --gres=rgpu:2 lstopo-no-graphics --of console
    is "$rc:$(grep -c 'PCI 7[0-9a-f]*:0[1-9]:00.0 (3D)' <<< "$out")" 0:2 \
        "lstopo shows two 3D controllers" || diag "$out$err"
    try 60 srun lstopo-no-graphics --of console
    is "$rc:$(grep -c '(3D)' <<< "$out")" 0:0 "and none in a job without GPUs" || diag "$out$err"
else
    skip "no lstopo (Debian: hwloc-nox)" 2
fi

# --- nvitop, gpustat

if python_env nvml nvidia-ml-py==13.580.82 gpustat==1.1.1 nvitop==1.7.2; then
    try 60 srun --gres=rgpu:2 env TERM=xterm "${python%/*}/nvitop" -1 --ascii
    is "$rc:$(grep -c 'rgpu software GPU .* 00007' <<< "$out")" 0:2 \
        "nvitop -1 shows two GPUs at addresses of ours" || diag "$out$err"
    try 60 srun --gres=rgpu:2 "${python%/*}/gpustat" --no-color
    is "$rc:$(grep -c 'rgpu software GPU' <<< "$out")" 0:2 "gpustat, too" || diag "$out$err"
else
    skip "no nvitop, gpustat: $(tail -n 1 <<< "$err")" 2
fi

# --- JAX

if { ls -d "$test_cache"/jax-* > /dev/null 2>&1 || [ -n "${RGPU_TEST_JAX:-}" ]; } &&
    python_env jax 'jax[cuda13]==0.10.2'; then
    devices='import jax; print([d.platform for d in jax.devices()], len(jax.devices("cuda")))'
    try 120 srun --gres=rgpu:2 "$python" -c "$devices"
    is "$rc:$out" "0:['gpu', 'gpu'] 2" "JAX shows two CUDA devices" || diag "$err"
    try 1200 srun --gres=rgpu:2 "$python" "$root/t/clients/jax_client.py"
    is "$rc:$out" "0:devices ['gpu', 'gpu']
jit True
grad True
transformer True True
pmap True
psum True
shard_map 2 True" "it computes and trains as on the CPU, on two GPUs too" || diag "$err"
    # What each step waits for: the same program with few steps and with many.
    for steps in 10 60; do
        RGPU_STATS=$T/steps-$steps.json try 600 srun --gres=rgpu:1 "$python" \
            "$root/t/clients/jax_steps.py" $steps
        is "$rc:$out" "0:trained True gpu" "a network trains for $steps steps" || diag "$err"
    done
    waits() { json_value 'sum(c["round_trips"] for n, c in j["by_name"].items()
        if n not in ("cuStreamQuery", "cuEventQuery"))' < "$T/steps-$1.json"; }
    note "$(waits 10) round trips of 10 steps, $(waits 60) of 60"
    ok "a step of JAX waits for no more than 1.5 round trips" \
        test "$(($(waits 60) - $(waits 10)))" -le 75
    try 120 srun --gres=rgpu:2 --rgpu-no-devices "$python" -c \
        'import jax; print(jax.devices()[0].platform)'
    is "$rc:$out" "0:cpu" "without device files it computes on the CPU" || diag "$err"
else
    skip "RGPU_TEST_JAX=1 lets it take JAX from PyPI, which is 4 GB" 6
fi
# --- TensorFlow

wanted=$(grep '^tensorflow' "$root/contrib/examples/requirements-tensorflow.txt")
if { ls -d "$test_cache"/tensorflow-* > /dev/null 2>&1 || [ -n "${RGPU_TEST_TENSORFLOW:-}" ]; } &&
    python_env tensorflow "$wanted"; then
    export TF_CPP_MIN_LOG_LEVEL=2
    # TensorFlow's own: the library that opens cuSOLVER looks into the folders of all others.
    gpus='import tensorflow as tf; print(len(tf.config.list_physical_devices("GPU")))'
    try 120 srun --gres=rgpu:2 "$python" -c "$gpus"
    is "$rc:$out" 0:0 "TensorFlow takes no GPU where it does not find cuSOLVER" || diag "$err"
    cusolver=$("$python" -c 'import nvidia.cusolver as c; print(list(c.__path__)[0] + "/lib")')
    try 120 env LD_LIBRARY_PATH="$cusolver" srun --gres=rgpu:2 "$python" -c "$gpus"
    is "$rc:$out" 0:2 "with its folder in LD_LIBRARY_PATH it takes two" || diag "$err"
    try 1200 srun --gres=rgpu:1 "$python" "$root/t/clients/tensorflow_client.py"
    is "$rc:$out" "0:devices 1
eager True
gradients True
function True
xla True
loss True" "it computes and trains as on the CPU" || diag "$err"
    try 1200 srun --gres=rgpu:2 "$python" "$root/contrib/examples/train_tensorflow.py"
    like "$rc:$(tail -n 1 <<< "$out")" "^0:2 GPUs, .*% of 360 test digits right" \
        "a Keras network learns to read digits on two GPUs" || diag "$out$err"
else
    skip "RGPU_TEST_TENSORFLOW=1 lets it take TensorFlow from PyPI, which is 4 GB" 4
fi
# --- PyTorch

if { ls -d "$test_cache"/torch-* > /dev/null 2>&1 || [ -n "${RGPU_TEST_TORCH:-}" ]; } &&
    python_env torch torch==2.15.0 numpy==2.4.6; then
    # The cluster's library_path has another cuDNN, which would go before PyTorch's own.
    ours_only="LD_LIBRARY_PATH=\${LD_LIBRARY_PATH%%:*} exec '$python' -W ignore \"\$@\""
    try 300 srun --gres=rgpu:2 sh -c "$ours_only" sh "$root/t/clients/torch_client.py"
    is "$rc:$out" "0:devices 2 rgpu software GPU
memory True 4
taken True 64
matmul True
linear True
conv True
device 0 True
device 1 True
between True
loader True
graph True
replayed True
events True
collect_env True 2
own kernels True" "PyTorch's cuBLAS, cuDNN, loaders, graphs and reports" || diag "$err"
    export PYTHONPATH=$root/contrib PYTHONDONTWRITEBYTECODE=1 TRITON_CACHE_DIR=$T/triton
    export TORCHINDUCTOR_CACHE_DIR=$T/inductor TORCHINDUCTOR_COMPILE_THREADS=1
    for network in linear convolution; do
        try 1200 srun --gres=rgpu:1 sh -c "$ours_only" sh "$root/t/lib/torch-train.py" $network
        is "$rc $(tail -n 1 <<< "$out")" "0 right" \
            "a $network network learns by torch.compile as on the CPU" || diag "$out$err"
    done
    unset PYTHONPATH
else
    skip "RGPU_TEST_TORCH=1 lets it take PyTorch from PyPI, which is 3 GB" 3
fi
ok "everything is free" wait_for 10 all_free
done_testing
