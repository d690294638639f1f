#!/bin/bash
# One program on the GPUs of two servers: a lease file that names both.
. "$(dirname "$0")/lib/tap.sh"
. "$(dirname "$0")/lib/rgpud.sh"

for server in gpu1 gpu2; do
    rgpud "$server" 'softgpu_devices = 2' 'softgpu_memory = "512M"'
    declare "control_$server=$control"
done
clients "gpu1=$control_gpu1" "gpu2=$control_gpu2"

# FILE SERVER...: a lease on both GPUs of each, in one file
spanned()
{
    local file=$1 server
    shift
    for server in "$@"; do
        "$build/bin/rgpu" request -n 2 --server "$server" -o "$file.$server" > "$file.log" 2>&1 || bail "no lease: $(cat "$file.log")"
    done
    python3 - "$file" "$@" <<'PY'
import json, os, sys
file, servers = sys.argv[1], sys.argv[2:]
lease = {"version": 1, "job": "", "servers": []}
for server in servers:
    lease["servers"] += json.load(open(f"{file}.{server}"))["servers"]
with os.fdopen(os.open(file, os.O_CREAT | os.O_WRONLY, 0o400), "w") as f:
    json.dump(lease, f)
PY
}
given_back() { for server in gpu1 gpu2; do "$build/bin/rgpu" release --file "$1.$server" > /dev/null; done; }

spanned "$T/lease" gpu1 gpu2
on() { try 100 env RGPU_LEASE="$T/lease" LD_LIBRARY_PATH="$interpose:$cuda_libs" "$@"; }
good() { is "$rc" 0 "$1" || diag "$out$err"; }

# --- what the program sees

uuids() { python3 -c 'import json, sys
for s in json.load(open(sys.argv[1]))["servers"]:
    for g in s["gpus"]: print(g["uuid"][4:].replace("-", ""))' "$T/lease"; }
on "$build/cuda/span-static" devices
good "four devices, and kernels on each"
seen() { sed -n 's/^device [0-9]*: \([0-9a-f]*\) .*/\1/p' <<< "$out"; }
is "$(seen)" "$(uuids)" "... which are the lease's GPUs, in its order"
on env CUDA_VISIBLE_DEVICES=3,0,2,1 "$build/cuda/span-static" devices
wanted=$(for line in 4 1 3 2; do uuids | sed -n "${line}p"; done)
is "$(seen)" "$wanted" "CUDA_VISIBLE_DEVICES puts them in another" || diag "$out$err"
is "$rc" 0 "... and each works there"

for kind in static shared; do
    while read -r case what; do
        on "$build/cuda/span-$kind" "$case"
        good "$what ($case, $kind cudart)"
        case $case in
        space) like "$out" "pieces, none upon another" "... though equal drivers give equal addresses" ;;
        host) is "$(grep -c '^kernel on device' <<< "$out")" 4 "... and what kernels print" ;;
        refused)
            like "$err" "managed or mapped host memory that belongs to another server's GPU.*without --rgpu-span" "... with the cure, for memory"
            like "$err" "a graph cannot span GPUs of two servers" "... and for graphs" ;;
        esac
    done <<'EOF'
threads eight threads, two on each device
copies copies between every two devices, of rows, boxes and more than a piece
order kernels, copies and events through all four, in order without a wait between
events events that are recorded again while another server waits
foreign objects and memory of one server while a GPU of the other is current
space an address is one server's
variables variables of modules, one for each device
host host functions, mapped and managed memory
refused what cannot span is refused
vmm memory that is mapped by hand, and pools
EOF
done

done_testing
