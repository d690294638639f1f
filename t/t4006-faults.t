#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Servers that are away or go away: the program gets a CUDA error, its stderr says which and why,
# nothing hangs.
. "$(dirname "$0")/lib/tap.sh"
. "$(dirname "$0")/lib/slurm.sh"
cluster_up
steady=$build/cuda/steady-static
[ -x "$steady" ] || skip_all "$steady is not built; run make cuda"

run_when() { printf 'while [ ! -e %q ]; do sleep 0.05; done; exec %q %q' "$1" "$steady" "$2"; }
# Slurm keeps a finished job for minutes: long enough to ask.
ended() { case $(job_state "$job") in COMPLETED | FAILED | CANCELLED) ;; *) return 1 ;; esac; }
exit_code() { scontrol show job "$job" | sed -n 's/.* ExitCode=\([0-9]*\):.*/\1/p'; }

submitted --no-requeue --gres=rgpu:1 -o "$T/out1" -e "$T/err1" --wrap \
    "$(run_when "$T/go1" "$T/mark1")"
wait_for 20 is_state "$job" RUNNING
server=$(server_of "$job")
ok "a job has a GPU of $server" [ -n "$server" ]
kill -9 "$(cat "$cluster/pid/rgpud.$server")"
touch "$T/go1"
ok "its program starts when that server is gone, tries for a while, and ends" wait_for 60 ended
is "$(exit_code)" 3 "with a CUDA error"
like "$(cat "$T/out1")" 'cudaMalloc: cudaError' "which the program can name"
like "$(cat "$T/err1")" "$server" "its stderr names the server"
like "$(cat "$T/err1")" '[Cc]onnection refused' "and says why"

other=$([ "$server" = gpu1 ] && echo gpu2 || echo gpu1)
submitted --gres=rgpu:1 -o "$T/out2" -e "$T/err2" --wrap "exec $steady $T/mark2"
ok "another job finds its GPU on the other server" wait_for 60 [ -e "$T/mark2" ]
is "$(server_of "$job")" "$other" "which is $other"
kill -9 $(workers)
is_requeued() { [ "$(job_state "$job") $(restarts "$job")" = "PENDING 1" ] ||
    { scontrol show job "$job"; return 1; }; }
ok "its worker dies: the program ends, and the job is requeued as if it had lost the server" \
    wait_for 40 is_requeued
like "$(cat "$T/out2")" 'cuda[A-Za-z]+: cudaError' "the program can name the error"
told="lost the GPU server $other .*: connection closed by the server: the server lives, and this "
told+="program's worker died there"
like "$(cat "$T/err2")" "$told" "its stderr names the server and the cause"
like "$(note_of "$job")" "^rgpu: lost its worker on server $other \(worker [0-9]+ was ended by \
signal 9, as when memory runs out\): requeued" "its comment says what happened"
log=$cluster/log/rgpud.$other
ok "the server's log has a warning" grep -q 'warning: .*worker .* was ended by signal 9' "$log"
scancel "$job"

submitted --no-requeue --gres=rgpu:1 -o "$T/out4" -e "$T/err4" --wrap "exec $steady $T/mark4"
ok "the server serves on" wait_for 60 [ -e "$T/mark4" ]
rgpu release --job "$job" > /dev/null
ok "an administrator ends its lease, and the program ends" wait_for 30 ended
like "$(cat "$T/err4")" "lost the GPU server $other .*: connection closed by the server: the lease \
was ended there \(rgpu release" "... and its stderr says so"

submitted --no-requeue --gres=rgpu:1 -o "$T/out3" -e "$T/err3" --wrap "exec $steady $T/mark3"
wait_for 60 [ -e "$T/mark3" ]
# All of the host at once, as when it loses power.
kill -9 "$(cat "$cluster/pid/rgpud.$other")" $(workers)
ok "its host dies mid-run, and the program ends" wait_for 30 ended
is "$(exit_code)" 3 "with a CUDA error"
like "$(cat "$T/err3")" "$other" "its stderr names the server"
is "$(workers)" "" "no worker is left"

start_rgpud "$other"
rgpu health > /dev/null
submitted --gres=rgpu:1 -o "$T/out5" -e "$T/err5" --wrap "exec $steady $T/mark5"
ok "a job has its GPU on the host that is back" wait_for 60 [ -e "$T/mark5" ]
is "$(server_of "$job")" "$other" "which is $other"
kill -9 "$(cat "$cluster/pid/rgpud.$other")" $(workers)
start_rgpud "$other"
ok "the host goes down and is back at once: the job is requeued" wait_for 60 is_requeued
like "$(note_of "$job")" "^rgpu: lost its worker on server $other \(a worker ended while rgpud was \
away, as when the host goes down\): requeued" "... and its comment says what happened"
done_testing
