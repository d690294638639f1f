# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Functions for tests that need packages from PyPI: . "$(dirname "$0")/lib/python.sh", after tap.sh
#
#   python_env NAME PACKAGE==VERSION...   sets $python to the interpreter of an environment that has
#                                         these packages, kept by
#                                         content under ~/.cache/rgpu-tests; 1 where it cannot be
#                                         made, with why in $err
#   python_wheel PACKAGE==VERSION         sets $wheel to a folder that has this package alone, kept
#                                         beside them; 1 as above

test_cache=${RGPU_TEST_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/rgpu-tests}

python_env()
{
    local name=$1 base=/usr/bin/python3 folder
    shift
    [ -x "$base" ] || base=$(command -v python3)
    folder=$test_cache/$name-$({ echo "$*"; "$base" --version; } | sha256sum | cut -c1-16)
    python=$folder/bin/python
    mkdir -p "$test_cache"
    # Two tests may want the same one at the same time.
    exec {env_lock}> "$test_cache/.$name.lock"
    flock "$env_lock"
    if ! [ -e "$folder/.done" ]; then
        note "making $folder, once"
        rm -rf "$folder"
        try 600 sh -c \
            '"$1" -m venv "$2" && d=$2 && shift 2 &&
             "$d/bin/pip" install -q --disable-pip-version-check "$@" && touch "$d/.done"' \
            sh "$base" "$folder" "$@"
    fi
    exec {env_lock}>&-
    [ -e "$folder/.done" ]
}

python_wheel()
{
    local folder=$test_cache/wheels/$1
    wheel=$folder
    [ -e "$folder/.done" ] && return
    python_env wheels pip==24.0 || return
    note "getting $1, once"
    rm -rf "$folder"
    try 300 "$python" -m pip install -q --disable-pip-version-check --no-deps --target "$folder" \
        "$1"
    [ "$rc" = 0 ] && touch "$folder/.done"
}
