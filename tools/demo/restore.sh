# Back again, byte for byte

three_epochs
title "Restore"
say "The newest checkpoint, into a folder of its own:"
show ckpt restore latest -o newest
# shellcheck disable=SC2046 # two names
same_bytes newest $(epoch_files 3)

say "Two before it:"
show ckpt restore latest~2 -o oldest
# shellcheck disable=SC2046
same_bytes oldest $(epoch_files 1)

say "A file that is there and differs is never overwritten without consent:"
echo "notes of mine" >newest/runs/exp1/checkpoint_epoch_3.pt
status=0
show ckpt restore latest -o newest </dev/null || status=$?
[ $status -eq 2 ] || broken "overwriting without --yes gave status $status instead of 2"
[ "$(cat newest/runs/exp1/checkpoint_epoch_3.pt)" = "notes of mine" ] || broken "a file was overwritten"
rm -rf newest oldest sums.txt
