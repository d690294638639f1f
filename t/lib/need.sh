# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# For tests of programs that get into need (t/hostile/need.h):  . "$(dirname "$0")/lib/need.sh"
# (after rgpud.sh)
#
#   program SOURCE INCLUDE LIBRARY   builds t/hostile/SOURCE; the calls below run it with LIBRARY
#   as_user ARGS...                  as a user whom nobody else is: RLIMIT_NPROC counts all
#                                    processes of one, and root is free of it
#   walk ARGS...                     with the malloc of t/hostile/malloc_fails.c
#   $step                            for walk: each process takes 20 ms; with RGPU_LONG=1 there are
#                                    more of them

# shellcheck disable=SC2034 # for scripts
step=$([ -n "${RGPU_LONG:-}" ] && echo 1 || echo 17)
nobody_else=64391

program()
{
    in_need=("$T/${1%.c}" "$3")
    ok "t/hostile/$1" cc -O1 -g -Wall -I"$2" -o "$T/${1%.c}" "$root/t/hostile/$1" -ldl -lpthread
    ok "t/hostile/malloc_fails.c" cc -shared -fPIC -O2 -o "$T/malloc_fails.so" \
        "$root/t/hostile/malloc_fails.c" -ldl
}

as_user()
{
    if [ "$(id -u)" = 0 ]; then
        chown $nobody_else "$RGPU_LEASE"
        try 120 setpriv --reuid $nobody_else --regid $nobody_else --clear-groups "${in_need[@]}" \
            "$@"
        chown root "$RGPU_LEASE"
    else
        try 120 "${in_need[@]}" "$@"
    fi
}

walk() { try 600 env LD_PRELOAD="$T/malloc_fails.so" "${in_need[@]}" malloc "$@"; }
