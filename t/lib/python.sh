# shellcheck shell=bash
# Functions for tests that need packages from PyPI: . "$(dirname "$0")/lib/python.sh", after tap.sh
#
#   python_env NAME PACKAGE==VERSION...   sets $python to the interpreter of an environment that has
#                                         these packages, kept by
#                                         content under ~/.cache/rgpu-tests; 1 where it cannot be
#                                         made, with why in $err

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
