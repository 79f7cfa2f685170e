# What changed between two epochs, and between two formats

three_epochs
title "See what changed"
say "Between the last two epochs, by part of the network:"
show ckpt diff --depth 2 latest~1 latest

say "Sides may be plain files too, also of different formats. These are the weights" \
    "of two epochs as safetensors:"
show ckpt diff --depth 1 runs/exp1/model_epoch_1.safetensors runs/exp1/model_epoch_3.safetensors

say "For scripts, --exit-code tells by its status whether anything differs:"
status=0
show ckpt diff --exit-code -q latest latest~1 >/dev/null || status=$?
[ $status -eq 1 ] || broken "two different epochs gave status $status instead of 1"
ckpt diff --exit-code -q latest latest >/dev/null || broken "a checkpoint differs from itself"
echo "status 1: they differ; an epoch against itself: status 0"
