#!/bin/sh
# make_pages.sh CKPT DIR: writes the completions and man pages of the program CKPT into DIR, from its own tables.
set -eu
ckpt=$1
dir=$2

rm -rf "$dir"
mkdir -p "$dir/man1"
"$ckpt" completion bash >"$dir/ckpt.bash"
"$ckpt" completion zsh >"$dir/_ckpt"
"$ckpt" man >"$dir/man1/ckpt.1"

# The page of the program names those of its commands.
commands=$(sed -n 's/^.*ckpt\\-\([a-z-]*\)\\fR(1)$/\1/p' "$dir/man1/ckpt.1")
[ -n "$commands" ] || { echo "make_pages.sh: ckpt.1 names no command" >&2; exit 1; }
for command in $commands; do
    "$ckpt" man "$command" >"$dir/man1/ckpt-$command.1"
done
