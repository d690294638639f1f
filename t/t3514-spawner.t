#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The spawner, which is root, believes nothing of an rgpud that is in other hands; and rgpud is not
# root.
. "$(dirname "$0")/lib/tap.sh"
. "$(dirname "$0")/lib/rgpud.sh"
[ "$(id -u)" = 0 ] || skip_all "a spawner needs root"
chmod 755 "$T"
low=2000000100 user=$(id -u nobody)
field() { sed -n "s/^$1:[[:space:]]*//p" "/proc/$2/status"; }

printf '#!/bin/sh\nwhile :; do sleep 1; done\n' > "$T/worker"
chmod 755 "$T/worker"
mkdir "$T/state"
chown nobody "$T/state"
cat > "$T/spawner.conf" <<EOF
[auth]
method = "none"
[rgpud]
listen = "127.0.0.1"
user = "nobody"
worker = "$T/worker"
worker_uids = "$low-$((low + 99))"
state_dir = "$T/state"
spawner = "$T/state/socket"
EOF
start_spawner() { start "$1" "$build/sbin/rgpud" --spawner --config "$T/spawner.conf"; }
start_spawner spawner
spawner=$pid
wait_for 10 test -S "$T/state/socket" || bail "no spawner: $(cat "$T/spawner.log")"
is "$(stat -c '%U %a' "$T/state/socket")" "nobody 600" "its socket is rgpud's user's"
is "$(stat -c '%u %a' "$T/state/cache")" "0 755" "what it writes to is root's"
ask() { python3 "$root/t/lib/spawner_client.py" "$T/state/socket" "$@"; }
ask_other() { chmod 666 "$T/state/socket"; ask 1234 "$low"; chmod 600 "$T/state/socket"; }
is "$(ask_other 2>&1)" refused "another user is refused, whatever the socket's mode"

mkfifo "$T/go"
STAY=1 python3 "$root/t/lib/spawner_client.py" "$T/state/socket" "$user" \
    "$low" < "$T/go" > "$T/said" 2>&1 &
exec 5> "$T/go"
started() { grep -q '^the same name' "$T/said"; }
wait_for 20 started || bail "$(cat "$T/said")"
worker=$(grep -lsaF MARK=spawned /proc/[0-9]*/environ | sed 's|/proc/\([0-9]*\)/.*|\1|' | head -n 1)
is "$(field Uid "$worker" | tr '\t' ' ')" "$((low + 1)) $((low + 1)) $((low + 1)) $((low + 1))" \
    "a worker has the user that was asked for, and no other"
is "$(field CapEff "$worker") $(field CapPrm "$worker") $(field NoNewPrivs "$worker")" \
    "0000000000000000 0000000000000000 1" "... and no right of root's"
is "$(tr '\0' ' ' < "/proc/$worker/environ")" "MARK=spawned " \
    "... and the environment that was sent, and no other"
is "$(tr '\0' ' ' < "/proc/$worker/cmdline")" "/bin/sh $T/worker " "it is the one program"
exec 5>&-
done_saying() { grep -q '^a group that has ended' "$T/said"; }
wait_for 20 done_saying || bail "$(cat "$T/said")"
while IFS=: read -r case wanted; do
    is "$(sed -n "s/^$case: //p" "$T/said")" "$wanted" "$case: $wanted"
done <<'END'
garbage:closed
one byte:closed
a large packet:closed
no such request:closed
a short group:closed
descriptors with a group:closed
root:EPERM
a system account:EPERM
uid -1:EPERM
its own user:EPERM
group root:EPERM
group shadow:EPERM
another's group:EPERM
a device with slashes:EPERM
a disk:EPERM
kmsg:EPERM
shm:EPERM
a name without an end:EPERM
too many devices:EINVAL
too many groups:EINVAL
a key that is a path:EINVAL
a worker of no group:ENOENT
a group:done
the same again, with more:done
the same of another user:EEXIST
another of the same user:EEXIST
a worker without stderr:EINVAL
an environment without end:EINVAL
an environment of nothing:EINVAL
more environment than there is:closed
300 variables:EINVAL
another's name:EINVAL
environment beyond the packet:closed
an environment of 4 GiB:closed
a group as a worker:ENOENT
SIGSTOP:EPERM
a signal for nobody:ENOENT
a signal for the group itself:ENOENT
the end of the group itself:ENOENT
the end of half a key:ENOENT
a worker:started
the same name:EEXIST
its end:done
an end that was taken:ENOENT
a group that has ended:ENOENT
END
ok "the spawner runs on" test -e "/proc/$spawner"
is "$(field Uid "$spawner" | cut -f1)" 0 "... as it was"

# Folders that are not the spawner's own, where rgpud's user could put something else.
stop "$spawner"
mkdir "$T/etc"
rm -r "$T/state/cache"
ln -s "$T/etc" "$T/state/cache"
start_spawner again
wait_for 10 tap_gone "$pid"
like "$(cat "$T/again.log")" 'state/cache: (Not a directory|Too many)' \
    "a link in the place of a folder: it does not start"

# The part that stays root is small.
lines=$(cat "$root"/src/spawner/*.{cc,h} | grep -cvE '^[[:space:]]*(//|$)')
ok "the spawner has $lines lines, 600 at most" test "$lines" -le 600
is "$("$build/libexec/rgpu-spawner" 2>&1 < /dev/null)" \
    "rgpu-spawner: root starts it, by rgpud --spawner: see rgpu-spawner(8)" \
    "without its settings it does not start"
like "$(setpriv --reuid=nobody --clear-groups "$build/sbin/rgpud" --spawner --config \
    "$T/spawner.conf" 2>&1)" '--spawner is for root' "only root becomes it"

# --- rgpud

rgpud gpu1
is "$(field Uid "$pid" | tr '\t' '\n' | grep -c '^0$')" 0 \
    "rgpud is not root, in any of its four ids"
is "$(field CapEff "$pid") $(field CapPrm "$pid") $(field CapBnd "$pid")" \
    "0000000000000000 0000000000000000 0000000000000000" "... has no capability, nor can get one"
is "$(field NoNewPrivs "$pid")" 1 "... by no program that it starts"
is "$(stat -c %u "$T/gpu1.state" "$T/gpu1.state/leases.db" | sort -u)" \
    "$(field Uid "$pid" | cut -f1)" "what it keeps is its own"

# A spawner lives as long as it has a worker, and keeps what rgpu.conf said when it started.
stop "$pid"
rm "$T/gpu1.ready"
rgpud gpu2 'user = "nobody"'
rgpud_pid=$pid
api POST /v1/offers '{"gpus": 1, "owner": {"uid": 4000000001, "host": "here", "pid": 1}}'
api POST "/v1/offers/$(json 'j["id"]')/accept"
lease=$(json 'j["leases"][0]["id"]')
mkfifo "$T/held"
start program sh -c "exec python3 $root/t/lib/data_client.py $data $lease \
    $(json 'j["leases"][0]["secret"]') --hold < $T/held"
program=$pid
exec 5> "$T/held"
wait_for 10 grep -q accepted "$T/program.log" || bail "no worker: $(cat "$T/gpu2.log")"
again()  # LINE...
{
    stop "$rgpud_pid"
    rm "$T/gpu2.ready"
    rgpud gpu2 'user = "nobody"' "$@"
    rgpud_pid=$pid
}
differ() { sed -n 's/.*other settings than rgpu.conf has now (\(.*\)), and.*/\1/p' "$T/gpu2.log"; }
again
is "$(differ)" "" "the next rgpud finds the spawner as rgpu.conf has it"
again 'worker_uids = "2000001000-2000001099"'
is "$(differ)" "[rgpud] worker_uids" \
    "rgpud says which settings of rgpu.conf its spawner does not have"
like "$(cat "$T/gpu2.log")" 'it ends with its last worker once rgpud has ended' \
    "... and what helps"
stop "$program"
api DELETE "/v1/leases/$lease"
done_testing
