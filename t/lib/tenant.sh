# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# For hostile tests, in which a worker is under its tenant's control:  . "$(dirname
# "$0")/lib/tenant.sh"  (after rgpud.sh)
#
#   tenant_rgpud NAME [LINE...]  an rgpud whose workers are t/lib/tenant.py
#   tenant UID [JOB]             a lease of this owner; sets $lease, $found (what its worker has
#                                found, JSON) and $host_pid
#   release LEASE
#
# As root only: else there is nobody to keep from whom.
[ "$(id -u)" = 0 ] || skip_all "only root can be kept from anything by rgpud"
python=$(PATH=/usr/bin:/bin command -v python3) || skip_all "no python3 in /usr/bin"

tenant_rgpud()
{
    cat > "$T/tenant" <<END
#!/bin/sh
[ \$# = 0 ] || exec $build/libexec/rgpu-worker "\$@"
exec $python $root/t/lib/tenant.py
END
    chmod 755 "$T/tenant"
    rgpud "$@" "worker = \"$T/tenant\""
    cleanup_do release_all "$control"
    rgpud_pid=$pid state=$T/$1.state
    chmod 1777 "$state/softgpu"  # where it tells what it has found
}

tenant()
{
    local owner="\"host\": \"here\", \"pid\": 1"
    [ -z "${2-}" ] || owner="\"job\": \"$2\", \"node\": \"here\""
    api POST /v1/offers "{\"gpus\": 1, \"share\": 10, \"owner\": {\"uid\": $1, $owner}}"
    api POST "/v1/offers/$(json 'j["id"]')/accept"
    lease=$(json 'j["leases"][0]["id"]')
    wait_for 20 test -e "$state/softgpu/$lease.json" ||
        bail "the tenant's worker does not start: $(tail -n 5 "$T"/*.log)"
    found=$(cat "$state/softgpu/$lease.json")
    host_pid=$(processes "$lease" | head -n 1)
}

# All processes of a lease, by their environment.
processes()
{
    grep -lsaF "RGPU_WORKER_LEASE=$1" /proc/[0-9]*/environ | sed 's|/proc/\([0-9]*\)/.*|\1|' |
        sort -n
}
release() { api DELETE "/v1/leases/$1"; }

# These workers end with their leases only.
release_all()  # CONTROL_PORT
{
    control=$1
    api GET /v1/leases
    [ "$code" = 200 ] || return
    for lease in $(json '" ".join(l["id"] for l in j["leases"])'); do release "$lease"; done
}
