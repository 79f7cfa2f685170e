# A training whose script knows nothing of ckpt

three_epochs
title "Without touching the script"
say "A watch saves what other programs write, once it is whole. It runs beside a" \
    "training that writes a file after each epoch and has never heard of it:"
export XDG_STATE_HOME=$work/state
mkdir -p runs/exp2
show ckpt watch 'runs/exp2/epoch_*.pt' --every 1s -n 3 --for 60s &
watch=$!
until ckpt watch --status -q 2>/dev/null; do sleep 0.05; done
for n in 1 2 3; do
    cp "$GOLDEN/checkpoint_epoch_$n.pt" "runs/exp2/epoch_$n.pt"
    sleep 0.2
done
wait $watch || broken "the watch ended with status $?"

say "Each file is a checkpoint, with the folder and the epoch of its name:"
show ckpt log -n 3
show ckpt restore latest -o second
show cmp runs/exp2/epoch_3.pt second/runs/exp2/epoch_3.pt || broken "restored bytes differ"
echo "the same bytes"
rm -rf second runs/exp2
