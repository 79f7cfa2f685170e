# Three epochs of a PyTorch training, saved one after the other

title "Save what a training writes"
say "A training of ResNet-18 writes its state after each epoch, and the weights once" \
    "more for publication. Its disk is small: the files of the epoch before are" \
    "deleted. A store beside it keeps them all:"
show ckpt init

for epoch in 1 2 3; do
    train_epoch $epoch
    show ckpt save -m "epoch $epoch" --meta epoch=$epoch runs/exp1/
done

say "The weights are in both files of an epoch: they are stored once. What changed" \
    "little since the epoch before is stored as the difference."
show ckpt log
show ckpt stats
