#!/usr/bin/env bash
# The example of docs/training.md trains, goes on where it was, and says so.
#
#   check_example.sh PROGRAM DATA
set -euo pipefail
program=$1 data=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

"$program" "$work" "$data" 1 >"$work/first"
"$program" "$work" "$data" 2 >"$work/second"
for line in "epoch 1 of 1: validation accuracy" "test accuracy 0.[0-9]* after 4 steps"; do
    grep -q "^$line" "$work/first" || { echo "no line '$line' in:"; cat "$work/first"; exit 1; }
done
for line in "resumed mnist-cnn in epoch 2 of 2, at step 4 of 8 (identical)" "test accuracy 0.[0-9]* after 8 steps"; do
    grep -q "^$line" "$work/second" || { echo "no line '$line' in:"; cat "$work/second"; exit 1; }
done
! "$program" "$work" "$work" 3 2>"$work/third" || { echo "trained without data"; exit 1; }
grep -q "^training: " "$work/third"
