#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# rgpu slurm setup: rgpu's lines in a site's slurm.conf, gres.conf and plugstack.conf, and out of
# them again to the byte; on files of many kinds, and on a cluster that knew nothing of rgpu.
. "$(dirname "$0")/lib/tap.sh"
. "$(dirname "$0")/lib/slurm.sh"
rgpu=$build/bin/rgpu

# --- rgpu's own lines, as make install fills them in

own=$T/own
mkdir -p "$own/plugstack.conf.d" "$T/libexec/rgpu" "$T/plugins"
fill()
{
    program="s|@libdir@|$T|g; s|@slurm_plugindir@|$T/plugins|g; s|@libexecdir@|$T/libexec|g; "
    program+="s|@licences@|400|g; s|@[a-z_]*@|/none|g"
    sed "$program" "$1"
}
mkdir "$T/slurm"
cp "$build"/lib/slurm/*.so "$T/slurm"
fill "$root/etc/slurm.conf.in" > "$own/slurm.conf"
fill "$root/etc/plugstack.conf.d/rgpu.conf.in" |
    sed 's|rundir=[^ ]*|rundir=/run/rgpu|' > "$own/plugstack.conf.d/rgpu.conf"
cp "$root/etc/gres.conf" "$own"
for script in prolog-slurmctld epilog-slurmctld prolog epilog; do
    printf '#!/bin/sh\nexec rgpu slurm %s\n' $script > "$T/libexec/rgpu/$script"
    chmod 755 "$T/libexec/rgpu/$script"
done
cat > "$T/rgpu.conf" <<END
[auth]
method = "none"
[[server]]
name = "gpu1"
address = "127.0.0.1:$(free_port)"
[slurm]
snapshot = "$T/none.snapshot"
END
export RGPU_CONF=$T/rgpu.conf
unset SLURM_CONF
for file in slurmd munged; do PATH=$PATH:/usr/sbin command -v $file > /dev/null ||
    skip_all "$file is not installed"; done
version=$(slurmctld -V 2> /dev/null || /usr/sbin/slurmctld -V 2> /dev/null) ||
    skip_all "slurmctld is not installed"

# site NAME: a directory of its own, with slurm.conf from stdin. setup ARGS...: on it.
site() { site=$T/sites/$1; mkdir -p "$site"; cat > "$site/slurm.conf"; }
setup() { try 60 "$rgpu" slurm setup --conf "$site/slurm.conf" --lines "$own" --licences 400 "$@"; }
json() { json_value "str(($1))" <<< "$2"; }
# All files of the site, with owner, mode and bytes.
state()
{
    (cd "$site" && find . -mindepth 1 -printf '%P %y %m %U %l\n' | sort; find . -type f | sort |
        xargs -r -d '\n' sha256sum)
}

# --- a plain file

site plain <<'END'
# A small cluster.
ClusterName=small
SlurmctldHost=head
GresTypes=gpu           # ours
NodeName=cn[1-4] CPUs=8 Gres=gpu:2
PartitionName=all Nodes=ALL
SelectType=select/cons_tres
END
chmod 640 "$site/slurm.conf"
before=$(state)
setup
is $rc 3 "what is missing: exit status 3" || diag "$err"
like "$out" "slurm.conf:4: change
  - GresTypes=gpu           # ours
  \+ GresTypes=gpu,rgpu           # ours
    --gres=rgpu:N is how users ask\." "a line that changes: file, line, old, new, why"
like "$out" "slurm.conf:10: add
  \+ Licenses=rgpu:400
    The pool as Slurm sells it: " "a line that is added"
like "$out" "gres.conf:2: add
  \+ Name=rgpu Count=1024 Flags=CountOnly" "gres.conf has its own"
like "$out" "plugstack.conf:2: add
  \+ required .*/spank_rgpu.so rundir=/run/rgpu " "so has plugstack.conf"
is "$(state)" "$before" "nothing is written without --apply"
setup --json --dry-run
expression='j["applied"], j["in_the_way"], {l["new"]: (l["line"], l["old"]) for l in '
expression+='j["lines"]}["NodeName=cn[1-4] CPUs=8 Gres=gpu:2,rgpu:1024"]'
is "$rc $(json "$expression" "$out")" \
    "3 (False, [], (5, 'NodeName=cn[1-4] CPUs=8 Gres=gpu:2'))" "--json says the same"
expression='all(l["why"].endswith((".", ")", ").")) and l["file"] and l["line"] for l in '
expression+='j["lines"]), len(j["lines"])'
is "$(json "$expression" "$out")" "(True, 13)" \
    "each line has a reason" || diag "$out"
setup --apply
is $rc 0 "--apply" || diag "$out$err"
like "$out" "slurm.conf: 11 lines written
.*/gres.conf: 1 line written, a new file
.*/plugstack.conf: 1 line written, a new file
next:
  1\. have rgpu installed on every machine with this slurm.conf, .*
  2\. have the same on every machine .*
  3\. systemctl restart slurmctld, then slurmd" "it says what it wrote, and what is next"
is "$(stat -c %a "$site/slurm.conf") $(stat -c %a "$site/rgpu-setup")" "640 700" \
    "the mode stays; what the file was is for its owner alone"
applied=$(state)
setup --apply
is "$rc:$out" "0:$site/slurm.conf: all that rgpu needs is there" \
    "a second --apply has nothing to do"
is "$(state)" "$applied" "and does nothing"
setup --dry-run
is "$rc" 0 "nor has --dry-run"
setup --undo
is $rc 0 "--undo" || diag "$out$err"
is "$(state)" "$before" "all is as it was: bytes, modes, files"
like "$out" "next:
  1\. systemctl disable --now rgpu-sync.timer" "what is next then is said, too"
setup --undo
is "$rc:$out" "0:$site/slurm.conf: rgpu slurm setup has changed nothing here" \
    "a second --undo has nothing to do"

# --- files of many kinds: --apply is enough once, and --undo gives the bytes back

round_trip()  # NAME, LINES WANTED IN THE RESULT...
{
    local name=$1 before again
    shift
    before=$(state)
    setup --apply
    [ $rc = 0 ] || { fail "$name: --apply" || diag "$out$err"; return; }
    again=$(state)
    setup --apply
    [ "$rc $(state)" = "0 $again" ] || { fail "$name: --apply again" || diag "$out$err"; return; }
    for line; do
        cat "$site"/*.conf | tr -d '\r' | grep -qxF -- "$line" ||
            { fail "$name: has no line $line" || diag "$(cat "$site"/*.conf)"; return; }
    done
    setup --undo
    is "$rc $(state)" "0 $before" "$name" || diag "$out$err"
}

site crlf < <(printf 'ClusterName=a\r\nGresTypes=gpu\r\nNodeName=n1\r\n')
round_trip "lines that end as on Windows" GresTypes=gpu,rgpu "NodeName=n1 Gres=rgpu:1024" \
    JobSubmitPlugins=rgpu
site no-newline < <(printf 'ClusterName=a\nNodeName=n1')
round_trip "no newline at the end" "NodeName=n1 Gres=rgpu:1024" Licenses=rgpu:400
site open < <(printf 'ClusterName=a\nNodeName=n1 \\')
round_trip "a last line that continues" Licenses=rgpu:400
site empty < /dev/null
round_trip "an empty file" Licenses=rgpu:400
site bytes < <(printf '# B\xfcro\nNodeName=n1 # \xe4\n\0\nGresTypes=gpu')
round_trip "bytes that are no UTF-8" GresTypes=gpu,rgpu
site lists <<'END'
gresTYPES = gpu,\
  mps
Licenses=matlab:10,rgpu:400
JobSubmitPlugins=rgpu,lua
PluginDir="/opt/a:/opt/b"
GresTypes=gpu,mps   # the last one counts
SCHEDULERPARAMETERS=bf_interval=3
PrologFlags=Contain,X11
NodeName=DEFAULT Gres=gpu:4
NodeName=n1 Gres=gpu:1 \
  CPUs=4
NodeName=n2 # inherits
END
round_trip "lists, continued lines, comments, repeated keys" \
    GresTypes=gpu,mps,rgpu\ \ \ "# the last one counts" JobSubmitPlugins=lua,rgpu \
    "PluginDir=\"/opt/a:/opt/b:$T/slurm\"" SCHEDULERPARAMETERS=bf_interval=3,bf_licenses \
    "NodeName=n1 Gres=gpu:1,rgpu:1024 \\" \
    "NodeName=n2 Gres=gpu:4,rgpu:1024 # inherits" PrologFlags=Contain,X11
site include <<'END'
ClusterName=Big
include nodes-%c.conf
Include more.conf
END
printf 'NodeName=n[1-9]\n' > "$site/nodes-big.conf"
printf 'GresTypes=gpu\nPlugStackConfig=%s/spank.conf\n' "$site" > "$site/more.conf"
printf 'required /lib/other.so\n' > "$site/spank.conf"
round_trip "files that are included, and a plugstack.conf elsewhere" \
    "NodeName=n[1-9] Gres=rgpu:1024" GresTypes=gpu,rgpu
setup
like "$out" "nodes-big.conf:1: change" "a change is told where the line stands"
site there < "$own/slurm.conf"
cat >> "$site/slurm.conf" <<'END'
NodeName=a Gres=rgpu:8
SelectType=select/cons_tres
SchedulerParameters=bf_licenses
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageTRES=gres/rgpu,license/rgpu
END
cp "$own/gres.conf" "$site"
mkdir "$site/plugstack.conf.d"
cp "$own/plugstack.conf.d/rgpu.conf" "$site/plugstack.conf.d"
echo 'include plugstack.conf.d/*.conf' > "$site/plugstack.conf"
setup
is "$rc:$out" "0:$site/slurm.conf: all that rgpu needs is there" \
    "lines that were added by hand are enough"

# --- links, and other directories

site relative <<< NodeName=n1
before=$(state)
cd "$site" || exit 1
try 60 "$rgpu" slurm setup --conf slurm.conf --lines "$own" --licences 400 --apply
cd "$T" || exit 1
setup --undo
is "$rc $(state)" "0 $before" "a relative name, and undone from elsewhere" || diag "$err"

site link <<< "NodeName=n1"
mkdir "$site/real"
mv "$site/slurm.conf" "$site/real/cluster.conf"
ln -s real/cluster.conf "$site/slurm.conf"
before=$(state)
setup --apply
is "$rc $(readlink "$site/slurm.conf") $(grep -c Gres= "$site/real/cluster.conf")" \
    "0 real/cluster.conf 1" "where slurm.conf is a link, its file is written"
setup --undo
is "$(state)" "$before" "and undone"

# --- what stands in the way

site conflict <<END
PrologSlurmctld=$T/sites/conflict/prolog.sh
Prolog=$T/sites/conflict/prolog.d/*
NodeName=n1
END
printf '#!/bin/sh\n# rgpu slurm prolog would be good here\ntrue\n' > "$site/prolog.sh"
mkdir "$site/prolog.d"
touch "$site/prolog.d/10-disk"
before=$(state)
setup --apply
is $rc 4 "scripts that are there already: exit status 4"
like "$out" \
    "in the way: PrologSlurmctld: .*slurm.conf:1 has .*/prolog.sh already, and Slurm takes one
    let it call rgpu's as its last line, exec $T/libexec/rgpu/prolog-slurmctld" \
        "with how to chain them"
like "$out" "in the way: Prolog: .*
    link rgpu's into that directory: ln -s $T/libexec/rgpu/prolog $site/prolog.d/90-rgpu" \
        "also in a directory"
is "$(state)" "$before" "nothing is written then"
setup --json
is "$rc $(json '[o["of"] for o in j["in_the_way"]]' "$out")" "4 ['PrologSlurmctld', 'Prolog']" \
    "--json has them, too"
echo "exec $T/libexec/rgpu/prolog-slurmctld" >> "$site/prolog.sh"
ln -s "$T/libexec/rgpu/prolog" "$site/prolog.d/90-rgpu"
setup --apply
is $rc 0 "the cures work" || diag "$out$err"
setup --undo

# The default of SelectType has changed: Slurm 22.05 and 24.11, whichever is here.
mkdir "$T/bin"
slurm_is() { printf '#!/bin/sh\necho "slurm %s"\n' "$1" > "$T/bin/slurmctld"; }
slurm_is 22.05.8
chmod 755 "$T/bin/slurmctld"
site select <<< NodeName=n1
PATH=$T/bin:$PATH setup
like "$out" '\+ SelectType=select/cons_tres
    With select/linear, the default before Slurm 23.11, the steps of a job get no GRES\.' \
    "SelectType is written where Slurm has select/linear by default"
slurm_is 24.11.5
PATH=$T/bin:$PATH setup
unlike "$out" SelectType "... and not where it has select/cons_tres"
if [[ ${version##* } == 22.05.* ]]; then
    setup --apply
    like "$rc $out" "^0 .*wait until squeue -a shows no job.*
  .*systemctl restart slurmctld" "... and what that does to jobs is said before the restart"
    setup --undo
else
    skip "this Slurm has select/cons_tres by default"
fi
echo SelectType=select/linear >> "$site/slurm.conf"
setup
like "$rc $out" "^4 .*in the way: SelectType: .*:2 has select/linear, and job steps get no GRES .*
    write SelectType=select/cons_tres there, at a time without jobs" \
    "select/linear is for people to change"

site plain < <(echo NodeName=n1)
slurm_is 99.11.1
PATH=$T/bin:$PATH setup --apply
built=${version##* }
like "$rc $out" \
    "^4 .*in the way: job_submit_rgpu.so: .* is built for Slurm $built, and here is 99.11.1" \
    "plugins of another Slurm"
like "$out" "in the way: spank_rgpu.so" "both of them"
slurm_is "${built%.*}.99"
PATH=$T/bin:$PATH setup
like "$rc $out" "^4 .*in the way: job_submit_rgpu.so" \
    "job_submit plugins must be of the very version"
unlike "$out" "in the way: spank_rgpu.so" "SPANK plugins need not"
mv "$T/slurm/spank_rgpu.so" "$T/spank_rgpu.so"
setup
like "$rc $out" "^4 .*spank_rgpu.so: No such file or directory
    make install" "a plugin that is not installed"
mv "$T/spank_rgpu.so" "$T/slurm"
try 60 "$rgpu" slurm setup --conf "$site/slurm.conf" --lines "$own"
like "$rc $out" "^4 .*in the way: Licenses: no server of the pool tells .*
    .*--licences 400" "a pool that does not answer, and no --licences"
echo SlurmUser=slurmy >> "$site/slurm.conf"
setup
like "$rc $out" '^4 .*SlurmUser is slurmy, who may not lease' \
    "a SlurmUser whom rgpu.conf does not know"
printf 'NodeName=n[1-4]\nNodeName=n5\n' > "$site/slurm.conf"
setup --nodes n1,n5
like "$rc $out" '^4 .*slurm.conf:1 is for nodes that --nodes names and for others
    make two lines' "a line that is for some of --nodes"
setup --nodes n5 --types h100,a100 --apply
is "$rc $(grep -h rgpu: "$site/slurm.conf" | head -n 1) $(grep -c Type= "$site/gres.conf")" \
    "0 NodeName=n5 Gres=rgpu:h100:1024,rgpu:a100:1024 2" "--nodes and --types"
setup --nodes n5 --types h100,l4
like "$rc $out" '^4 .*slurm.conf:2 has Gres=.* already, without all types of --types
    rgpu slurm setup --undo and then --apply --types' "types beside those that nodes have"
setup --undo
setup --licences 200
is "$rc $err" '2 rgpu: --licences: it was given 2 times, and once is the most; see rgpu --help' \
    "two numbers of licences"
for number in 0 99999999999999999999; do
    try 20 "$rgpu" slurm setup --conf "$site/slurm.conf" --lines "$own" --licences $number
    # Newer CLI11 finds that out by itself.
    like "$rc $err" "^2 rgpu: --licences.*: (the pool's GPUs times 100 are|a number is) wanted" \
        "... a number that no pool has: $number"
done
try 20 "$rgpu" slurm setup --licences
is "$rc $err" '2 rgpu: --licences: N is missing behind it; see rgpu --help' "... and none"
try 20 "$rgpu" slurm setup --licences many
is "$rc $err" '2 rgpu: --licences: a number is wanted, not "many"; see rgpu --help' \
    "a number of licences that is none"

# --- edited since

site edited <<< $'ClusterName=a\nGresTypes=gpu\nNodeName=n1'
setup --apply
sed -i 's/ClusterName=a/ClusterName=b/; $a NodeName=n2' "$site/slurm.conf"
setup --undo
is "$rc $(tr '\n' ' ' < "$site/slurm.conf")" \
    "0 ClusterName=b GresTypes=gpu NodeName=n1 NodeName=n2 " "what was edited elsewhere stays"
like "$out" "slurm.conf: rgpu's lines are out, and what was edited since stays" "and that is said"
setup --apply
sed -i 's/^GresTypes=.*/GresTypes=rgpu,gpu,mps/' "$site/slurm.conf"
before=$(state)
setup --undo
sentence='^4 .*nothing was changed: .*slurm.conf was edited since: the line "GresTypes=gpu,rgpu", '
sentence+='which setup wrote, is not there any more'
like "$rc $err" "$sentence" \
    "a line of its own that was edited: exit status 4"
is "$(state)" "$before" "and nothing is changed"
sed -i 's/^GresTypes=.*/GresTypes=gpu,rgpu/' "$site/slurm.conf"
setup --undo
is $rc 0 "put back, it can be undone" || diag "$err"

site twice <<< NodeName=n1
cp "$site/slurm.conf" "$T/first"
setup --apply
echo 'NodeName=n2' >> "$site/slurm.conf"
setup --apply
is "$rc $(tail -n 1 "$site/slurm.conf")" "0 NodeName=n2 Gres=rgpu:1024" \
    "a node that came later gets its GRES"
try 60 "$rgpu" slurm setup --conf "$site/slurm.conf" --lines "$own" --apply --licences 800
is "$rc $(grep Licenses "$site/slurm.conf")" "0 Licenses=rgpu:800" \
    "a pool that has grown, its licences"
setup --undo
is "$rc $(tr '\n' ' ' < "$site/slurm.conf")" "0 NodeName=n1 NodeName=n2 " "all three are undone"
is "$(ls "$site")" slurm.conf "and no file is left"

# A file that --apply had not reached yet when it was killed.
site killed <<< NodeName=n1
before=$(state)
setup --apply
cp "$T/first" "$site/slurm.conf"
setup --undo
is "$rc $(state)" "0 $before" "an --apply that was killed can be undone" || diag "$err"

# --- what cannot be done

site readonly <<< NodeName=n1
if setpriv --reuid=65534 --regid=65534 --clear-groups true 2> /dev/null; then
    cp "$rgpu" "$T/rgpu"
    chmod 755 "$T" "$T/sites" "$site" "$T/slurm"
    chmod -R a+rX "$own" "$T/libexec" "$T/slurm"
    before=$(state)
    try 60 setpriv --reuid=65534 --regid=65534 --clear-groups env RGPU_CONF="$T/rgpu.conf" \
        "$T/rgpu" slurm setup --conf "$site/slurm.conf" --lines "$own" \
        --licences 400 --apply
    like "$rc $err" "^1 rgpu: nothing was changed: making $site/rgpu-setup: Permission denied" \
        "a directory that cannot be written"
    is "$(state)" "$before" "... is as it was"
else
    skip "no right to become another user" 2
fi
try 60 "$rgpu" slurm setup --conf "$T/none/slurm.conf"
like "$rc $err" "^1 .*none/slurm.conf: No such file or directory: name .* --conf or SLURM_CONF" \
    "no such file"
try 60 env SLURM_CONF="$T/other/slurm.conf" "$rgpu" slurm setup
like "$rc $err" "^1 .*other/slurm.conf: No such file" "SLURM_CONF names it where --conf does not"
site wrong <<< 'include none.conf'
setup
like "$rc $err" "^1 .*slurm.conf:1: .*none.conf: No such file" "an include that is not there"
setup --apply --undo
is $rc 2 "--apply and --undo at once: exit status 2"
setup --nodes 'n[1-'
is $rc 2 "--nodes that are none"
try 60 "$rgpu" slurm setup --conf "$T/sites/plain/slurm.conf" --lines "$T"
like "$rc $err" "^1 .*slurm.conf: No such file.*; --lines names the directory in which make" \
    "--lines without lines"

# --- any bytes: it ends well or with a sentence, and what it wrote goes away again

is "$(python3 "$py/setup_random_lines.py" "$rgpu" "$own" "$T/random")" True "files of random lines"

# --- a real cluster

cluster_up --plain
conf=$cluster/etc/slurm.conf
cp "$conf" "$T/plain.conf"
hundredths=$(($(rgpu list --json | json_value 'sum(len(s["gpus"]) for s in j["servers"])') * 100))
files() { (cd "$cluster/etc" && find . -type f -name '*.conf' | sort | xargs sha256sum); }
restart()
{
    local name pid
    for name in slurmctld slurmd.cn1 slurmd.cn2; do
        pid=$(cat "$cluster/pid/$name")
        kill "$pid"
        wait_for 60 tap_gone "$pid" || return 1
    done
    daemon slurmctld && daemon slurmd -N cn1 && daemon slurmd -N cn2
}
idle() { [ "$(sinfo -h -N -o %T | sort -u)" = idle ]; }
# Written as Slurm would take it, too, and few people do.
program='s/^SchedulerParameters=\(bf_interval=1\),\(.*\)/scheduLerparameters = "\1,\\\n\2"  # '
program+='here/; s/^NodeName=cn1.*/include nodes.conf/; /^NodeName=cn2/d'
sed -i "$program" "$conf"
grep '^NodeName' "$T/plain.conf" |
    sed 's/ CPUs=16 *$/ \\\n CPUs=16/; s/$/\r/' > "$cluster/etc/nodes.conf"
before=$(files)
try 60 srun --gres=rgpu:1 true
like "$rc $err" '^1 .*Invalid generic resource' "a cluster that knows nothing of rgpu"
try 60 rgpu slurm setup --lines "$cluster/share" --apply
is $rc 0 "setup --apply, with the pool's own licences" || diag "$out$err"
like "$(cat "$conf")" "Licenses=rgpu:$hundredths" "which are those of its GPUs"
ok "Slurm starts with what it wrote" restart
ok "its nodes are idle" wait_for 60 idle
is "$(scontrol show config | sed -n 's/^SchedulerParameters *= //p')" \
    "bf_interval=1,sched_interval=1,bf_licenses" "Slurm reads its lines as setup does"
try 120 srun --gres=rgpu:1 sh -c 'grep -c uuid "$RGPU_LEASE"'
is "$rc:$out" 0:1 "a job gets a GPU" || diag "$err"
agrees() { rgpu slurm sync && rgpu slurm check; }
ok "rgpu slurm check finds nothing" wait_for 60 agrees
try 60 srun --gres=rgpu:1000 true
like "$rc $err" '^1 .*1000 GPUs on one node were asked for' "what can never fit is refused"
ok "the cluster is idle again" end_jobs
try 60 rgpu slurm setup --undo
is $rc 0 "setup --undo" || diag "$out$err"
is "$(files)" "$before" "the files are as they were"
ok "Slurm starts with them" restart
ok "its nodes are idle" wait_for 60 idle
try 60 srun true
is $rc 0 "and it runs jobs" || diag "$err"
done_testing
