#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What is done to one task of a job array is done to that task alone: one of them always has the
# array's own number, by which Slurm's commands mean them all.
. "$(dirname "$0")/lib/tap.sh"
. "$(dirname "$0")/lib/slurm.sh"
cluster_up
number_of() { squeue -h -r -t R -j "$1" -o %A; }  # of the array's task 14_2
runs() { [ -n "$(number_of "$1")" ] || { squeue; return 1; }; }

# --- licences of a range of nodes

submitted -H -a 1-2 -N 1-2 -c 8 --gres=rgpu:1 --wrap "$(until_file "$T/ranges")"; array=$job
scontrol release "${array}_1"
ok "a task runs on the two nodes that it may have" wait_for 60 runs "${array}_1"
is "$(squeue -h -r -j "${array}_1" -o '%D %W')" "2 rgpu:200" "... and pays for both"
submitted -w cn2 -c 8 --wrap "$(until_file "$T/busy")"
ok "one is busy now" wait_for 60 is_state "$job" RUNNING
scontrol release "${array}_2"
ok "another task runs" wait_for 60 runs "${array}_2"
is "$(number_of "${array}_2")" "$array" "its number is that of the array"
is "$(squeue -h -r -j "${array}_2" -o '%D %W')" "1 rgpu:100" "... on one node, for which it pays"
is "$(squeue -h -r -j "${array}_1" -o '%D %W')" "2 rgpu:200" "the first still pays for two"
is "$(held) $(sold)" "300 300" "licences are what is held"
touch "$T/ranges" "$T/busy"
ended() { [ -z "$(squeue -h -o %i)" ] && all_free; }
ok "all have ended" wait_for 60 ended

# --- a slurmstepd that is killed

submitted -a 1-2 --gres=rgpu:1 --wrap \
    "echo > $T/begun.\$SLURM_ARRAY_TASK_ID; $(until_file "$T/killed")"; array=$job
both() { [ -e "$T/begun.1" ] && [ -e "$T/begun.2" ]; }
ok "two tasks run" wait_for 60 both
of_array=2
[ "$(number_of "${array}_2")" = "$array" ] || of_array=1
kill -9 $(stepds "$array")
gone() { ! runs "${array}_$of_array" > /dev/null; }
ok "one whose slurmstepd was killed ends" wait_for 60 gone
holds_one() { [ "$(held)" = 100 ] || { rgpu list; return 1; }; }
ok "... and gives its GPU back" wait_for 60 holds_one
ok "the other runs on" runs "${array}_$((3 - of_array))"
touch "$T/killed"
ok "it ends well" wait_for 60 ended
is "$(scontrol show job "${array}_$((3 - of_array))" | grep -o 'JobState=[A-Z]*')" \
    JobState=COMPLETED "... of itself"
done_testing
