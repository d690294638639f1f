# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Functions for tests that compile CUDA programs which take long: . "$(dirname "$0")/lib/cuda.sh",
# after tap.sh
#
#   cuda_program SOURCE FLAGS...   sets $program to what nvcc makes of it, kept by content under
#                                  ~/.cache/rgpu-tests/cuda;
#                                  1 with nvcc's words in $err where it fails
#
# Sources: t/cuda/libraries/, which `make cuda` leaves alone.

test_cache=${RGPU_TEST_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/rgpu-tests}

cuda_program()
{
    local source=$1 nvcc=$cuda_libs/../bin/nvcc key
    shift
    key=$({ cat "$source"; echo "$*"; "$nvcc" --version; } | sha256sum | cut -c1-32)
    program=$test_cache/cuda/$(basename "$source" .cu)-$key
    [ -x "$program" ] && { touch "$program"; return; }
    mkdir -p "$test_cache/cuda"
    # What no test has asked for in a month goes.
    find "$test_cache/cuda" -type f -mtime +30 -delete
    try 300 "$nvcc" -std=c++17 -O2 "$@" -o "$T/program" "$source"
    [ "$rc" = 0 ] || return 1
    mv "$T/program" "$program.$$" && mv "$program.$$" "$program"
}
