#!/usr/bin/env bash
# Shows ckpt at work: on a training of its own, which is killed and ends with the same bits as one that was not; and on
# real checkpoints of a PyTorch training (tests/golden/trajectory-tiny).
#
#   tools/demo.sh           the main job, told as one story
#   tools/demo.sh NAME      one chapter
#   tools/demo.sh --list    the chapters
#   tools/demo.sh --keep    leaves the folder of the demo where it is and says where (before a name)
#
# Installs what is missing (Debian and Ubuntu, as root or with sudo), configures, builds, runs. Nothing outside the build
# folder and a temporary folder is written. Ends with 0 only when everything was as promised. CKPT_DEMO_PROGRAM=FILE shows
# a program that is built already.
set -euo pipefail
root=$(dirname "$(dirname "$(readlink -f "$0")")")
. "$root/tools/build.sh"

MAIN_JOB=(train save diff restore kill keep watch repair)

usage() {
    sed -n '2,/^[^#]/{s/^# \{0,1\}//p}' "$0"
}

list_chapters() {
    local file
    for file in "$root"/tools/demo/*.sh; do
        printf '%-10s %s\n' "$(basename "$file" .sh)" "$(sed -n '1s/^# //p' "$file")"
    done
}

# ---- What chapters are written with -----------------------------------------------------------------------------------

if [ -t 1 ] && [ -z "${NO_COLOR:-}" ]; then
    bold=$'\e[1m' dim=$'\e[2m' plain=$'\e[0m'
else
    bold='' dim='' plain=''
fi

title() { # TEXT
    printf '\n%s== %s%s\n' "$bold" "$1" "$plain"
}

say() { # TEXT...
    printf '\n'
    echo "$*" | fmt -w 78 | sed "s/.*/$dim&$plain/"
}

show() { # COMMAND...: prints the command as it would be typed, then runs it
    local word words=()
    for word in "$@"; do
        case $word in
        '' | *[!A-Za-z0-9_./=:~@%+,-]*) words+=("'$word'") ;;
        *) words+=("$word") ;;
        esac
    done
    printf '%s$ %s%s\n' "$bold" "${words[*]}" "$plain"
    "$@"
}

broken() { # TEXT...: a promise was not kept
    printf 'demo: broken promise: %s\n' "$*" >&2
    exit 1
}

GOLDEN=$root/tests/golden/trajectory-tiny

train_epoch() { # N: the end of an epoch of a training that has room for its newest files only
    mkdir -p runs/exp1
    rm -f runs/exp1/*
    cp "$GOLDEN/checkpoint_epoch_$1.pt" "$GOLDEN/model_epoch_$1.safetensors" runs/exp1/
    (cd runs/exp1 && sha256sum -- *) >"epoch_$1.sha256"
}

same_as_epoch() { # N FOLDER: the files in FOLDER are those that the training wrote, to the last bit
    (show cd "$2" && show sha256sum -c "$work/epoch_$1.sha256") || broken "restored bytes differ"
}

three_epochs() { # a store with three checkpoints, for chapters that are run alone
    local n
    [ ! -d .ckpt ] || return 0
    ckpt -q init
    for n in 1 2 3; do
        train_epoch $n
        ckpt -q save -m "epoch $n" --meta epoch=$n runs/exp1/
    done
}

# ---- The demo ---------------------------------------------------------------------------------------------------------

keep=no
if [ "${1:-}" = --keep ]; then
    keep=yes
    shift
fi
case ${1:-} in
-h | --help) usage; exit 0 ;;
--list) list_chapters; exit 0 ;;
-*) usage >&2; exit 2 ;;
esac
[ $# -le 1 ] || { usage >&2; exit 2; }
if [ $# -eq 1 ] && [ ! -e "$root/tools/demo/$1.sh" ]; then
    { echo "demo: no chapter '$1'; there are:"; list_chapters; } >&2
    exit 2
fi

if [ -n "${CKPT_DEMO_PROGRAM:-}" ]; then
    program=$CKPT_DEMO_PROGRAM
else
    deps build
    echo "Building ckpt ..."
    build_preset release -DCKPT_BUILD_TESTS=OFF
    program=$root/build/release/tools/ckpt
fi
PATH=$(dirname "$(readlink -f "$program")"):$PATH
unset CKPT_STORE

work=$(mktemp -d "${TMPDIR:-/tmp}/ckpt-demo.XXXXXX")
cleanup() {
    if [ $keep = yes ]; then
        echo "The demo's folder is $work"
    else
        rm -rf "$work"
    fi
}
trap cleanup EXIT
cd "$work"

started=$SECONDS
chapters=("${@:-}")
[ $# -gt 0 ] || chapters=("${MAIN_JOB[@]}")
for chapter in "${chapters[@]}"; do
    # shellcheck source=/dev/null
    . "$root/tools/demo/$chapter.sh"
done
title "Everything was as promised ($((SECONDS - started)) s)"
