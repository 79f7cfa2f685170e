# What changed between two epochs, and between two formats

three_epochs
title "See what changed"
say "Between the last two epochs, the state by its parts and the published weights" \
    "by layer:"
show ckpt diff --depth 1 latest~1 latest

say "Sides may be plain files too, also of different formats. Do the state of the" \
    "training and the published safetensors hold the same weights?"
(cd runs/exp1 && show ckpt diff --depth 1 checkpoint_epoch_3.pt model_epoch_3.safetensors)

say "For scripts, --exit-code tells by its status whether anything differs:"
status=0
show ckpt -q diff --exit-code latest~1 latest >quiet.txt || status=$?
cat quiet.txt
[ $status -eq 1 ] || broken "two different epochs gave status $status instead of 1"
ckpt -q diff --exit-code latest latest || broken "a checkpoint differs from itself"
echo "status 1: they differ (and 0 for an epoch against itself)"
