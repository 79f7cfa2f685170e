# Back again, byte for byte

three_epochs
title "Restore"
say "The newest checkpoint, into a folder of its own. The sums are those that" \
    "sha256sum found when the training wrote the files:"
show ckpt restore latest -o newest
same_as_epoch 3 newest/runs/exp1

say "Two before it, whose files the training has deleted long since:"
show ckpt restore latest~2 -o oldest
same_as_epoch 1 oldest/runs/exp1

say "A file that is there and differs is never overwritten without consent:"
echo "notes of mine" >newest/runs/exp1/checkpoint_epoch_3.pt
status=0
show ckpt restore latest -o newest </dev/null 2>refused.txt || status=$?
cat refused.txt
[ $status -eq 2 ] || broken "overwriting without --yes gave status $status instead of 2"
[ "$(cat newest/runs/exp1/checkpoint_epoch_3.pt)" = "notes of mine" ] || broken "a file was overwritten"
rm -rf newest oldest
