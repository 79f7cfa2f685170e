# What changed between two epochs, and between two formats

three_epochs
title "See what changed"
say "How far the network and its optimizer moved in the last epoch, by their parts." \
    "Sides are checkpoints or files; here a file of the epoch before, given back:"
show ckpt restore latest~1 -o before
show cp before/runs/exp1/checkpoint_epoch_2.pt before.pt
show ckpt diff --depth 1 before.pt runs/exp1/checkpoint_epoch_3.pt
rm -rf before before.pt

say "Formats may differ. Do the state of the training and the published safetensors" \
    "hold the same weights?"
(cd runs/exp1 && show ckpt diff --depth 1 checkpoint_epoch_3.pt model_epoch_3.safetensors)

say "Two whole checkpoints; for scripts, --exit-code tells by its status whether" \
    "anything differs:"
status=0
show ckpt -q diff --exit-code latest~1 latest >quiet.txt || status=$?
cat quiet.txt
[ $status -eq 1 ] || broken "two different epochs gave status $status instead of 1"
ckpt -q diff --exit-code latest latest || broken "a checkpoint differs from itself"
echo "status 1: they differ (and 0 for an epoch against itself)"
