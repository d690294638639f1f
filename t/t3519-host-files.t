#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Hostile: a tenant in full control of his worker reaches no service of the host by its socket,
# leaves no file on it, and has no key of root's.
. "$(dirname "$0")/lib/tap.sh"
# What rgpu itself has below /tmp would have to stay there: the test's own is elsewhere.
rm -rf "$T"
T=$(mktemp -d "/var/lib/rgpu-$test_name.XXXXXX") || exit 1
. "$(dirname "$0")/lib/rgpud.sh"
. "$(dirname "$0")/lib/tenant.sh"
case $build in /tmp/* | /var/tmp/* | /run/*) skip_all "the worker is below ${build%/*}" ;; esac

run=$(mktemp -d /run/rgpu-t3519.XXXXXX) nvidia=$(mktemp -d /run/nvidia-t3519.XXXXXX)
left=rgpu-t3519.$$
cleanup_do rm -rf "$run" "$nvidia" "/tmp/$left" "/var/tmp/$left" "/run/lock/$left" "/run/$left"
chmod 755 "$run" "$nvidia"
start service "$python" "$py/host_files.py" listen "$run/socket" "$nvidia/socket"
wait_for 10 test -S "$nvidia/socket" || bail "no service"

cat > "$T/worker" <<EOF
#!/bin/sh
[ \$# = 0 ] || exec $build/libexec/rgpu-worker "\$@"
exec $python $py/host_files.py try $run/socket $nvidia/socket $left $T/open
EOF
chmod 755 "$T/worker"
worker_user=nobody
# Every user may write there, as in many places of a host.
mkdir -m 1777 "$T/open"
rgpud gpu1 "worker = \"$T/worker\""
cleanup_do release_all "$control"
grep -q 'no namespaces here' "$T/gpu1.log" && skip_all "no namespaces here"

look()  # OWNER: sets $found
{
    api POST /v1/offers \
        "{\"gpus\": 1, \"share\": 10, \"owner\": {\"uid\": $1, \"host\": \"here\", \"pid\": 1}}"
    api POST "/v1/offers/$(json 'j["id"]')/accept"
    lease=$(json 'j["leases"][0]["id"]')
    told()
    {
        host_pid=$(processes "$lease" | head -n 1)
        found=$(cat "/proc/$host_pid/root$T/gpu1.state/"{own/cache,cache/*}/found 2> /dev/null)
        [ -n "$found" ]
    }
    wait_for 20 told || bail "the tenant's worker does not start: $(tail -n 5 "$T/gpu1.log")"
    release "$lease"
}
for owner in 4000000001 0; do
    look "$owner"
    is "$(json 'j["service"]' "$found")" "FileNotFoundError 2" \
        "as user $(json 'j["uid"]' "$found"): a service that listens in /run is not there" ||
        diag "$found"
    is "$(json 'j["nvidia"]' "$found")" "done" "... NVIDIA's is"
    like "$(json 'j["left"]' "$found")" "^\[('[A-Za-z]+Error [0-9]+', ){3}'done'\]$" \
        "... no file can be left in the host's folders, and its own /dev/shm is there"
    is "$(json 'j["tmp"], j["sees"]' "$found")" "(['done', 'done'], ['$left', '$left'])" \
        "... /tmp and /var/tmp are its own"
    is "$(json 'j["cache"]' "$found")" "done" "... and its cache can be written"
    like "$(json 'j["keys"]' "$found")" "^keyring;$(json 'j["uid"]' "$found");.*;_ses" \
        "... the keys of its session are its own"
done
is "$(ls -d "/tmp/$left" "/var/tmp/$left" "/run/lock/$left" "/run/$left" "/dev/shm/$left" \
    "$T/open/$left" 2> /dev/null)" "" "nothing of it is on the host"
ok "... whose services are where they were" test -S "$run/socket"
done_testing
