#!/bin/sh
# make_pages.sh CKPT DIR: writes the completions and the man page of the program CKPT into DIR, from its own tables.
set -eu
ckpt=$1
dir=$2

rm -rf "$dir"
mkdir -p "$dir/man1"
"$ckpt" completion bash >"$dir/ckpt.bash"
"$ckpt" completion zsh >"$dir/_ckpt"
"$ckpt" man >"$dir/man1/ckpt.1"
