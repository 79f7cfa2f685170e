# A training that is killed goes on, and ends with the same bits

# A built program is shown by the tests, which are quick: 2,000 images in small batches make as many checkpoints.
if [ -z "${CKPT_DEMO_PROGRAM:-}" ] && { [ "${CKPT_DEPS:-}" = skip ] || "$root/tools/deps.sh" data; } &&
    [ -d /usr/share/datasets/fashion-mnist ]; then
    data=/usr/share/datasets/fashion-mnist
    small=()
else
    data=$root/tests/golden/fashion-2000
    small=(--set data.batch=8)
fi

newest_step() { # FOLDER: of its newest checkpoint, 0 without one
    ckpt --json -s "$1" log -n 1 2>/dev/null | awk -F '"step": *' '{ step = $2 } END { print step + 0 }'
}

result() { # NAME: a number of the twin's result
    sed -n '/"event": *"result"/s/.*"'"$1"'": *\([-+.e0-9]*\).*/\1/p' twin.jsonl
}

row() { # WHAT VALUE
    printf '  %-34s %s\n' "$1" "$2"
}

train_killed() { # a training that gets SIGKILL once the checkpoint of step 100, or a newer one, is there
    local training
    printf '%s$ ckpt -s killed %s &%s\n' "$bold" "$*" "$plain"
    ckpt -s killed "$@" &
    training=$!
    while kill -0 $training 2>/dev/null && [ "$(newest_step killed)" -lt 100 ]; do sleep 0.02; done
    kill -KILL $training 2>/dev/null || broken "the training ended before it could be killed"
    wait $training 2>/dev/null || true
    printf '%s$ kill -KILL %s%s\n' "$bold" $training "$plain"
}

mkdir training
cd training
title "Train, be killed, go on"
say "Two epochs of a convolutional network on images of clothes. Every 50 steps a" \
    "checkpoint goes into the store, while the training continues. In the middle" \
    "the process gets SIGKILL, as from a machine that is taken away."
ckpt -q init killed
ckpt -q init twin
train_killed train mnist-cnn --data "$data" --epochs 2 ${small[@]+"${small[@]}"}

say "What is there is good, and the training goes on from the newest:"
show ckpt -s killed log
show ckpt -s killed resume

say "A twin trains both epochs from step 0 without a stop (its lines as JSON):"
train_twin=(ckpt --json -s twin train mnist-cnn --data "$data" --epochs 2 ${small[@]+"${small[@]}"})
printf '%s$ %s >twin.jsonl%s\n' "$bold" "${train_twin[*]}" "$plain"
"${train_twin[@]}" >twin.jsonl

say "Both have saved the same state at their ends: weights, optimizer, history, all." \
    "Every byte of the two files is compared:"
show ckpt -s killed restore mnist-cnn-final -o killed-state
show ckpt -s twin restore mnist-cnn-final -o twin-state
identical=no
show cmp killed-state/mnist-cnn/state.safetensors twin-state/mnist-cnn/state.safetensors && identical=yes
[ $identical = yes ] || broken "the killed and resumed training ended with other bytes than its twin"

title "What is in the store"
show ckpt -s killed log
say "How far the weights moved in the last steps, and what the checkpoints take:"
show ckpt -s killed diff --depth 2 latest~2 latest
show ckpt -s killed stats
say "The best by validation accuracy, as a file that any reader of safetensors reads," \
    "and what its network makes of images that it never saw:"
show ckpt -s killed restore best -o best-state
show ckpt -s killed eval best
show ckpt -s killed eval best-state/mnist-cnn/state.safetensors --data "$data"

title "What it came to"
row "accuracy on the test images" "$(awk -v a="$(result test_accuracy)" 'BEGIN { printf "%.2f %%", 100 * a }')"
row "images per second" "$(awk -v r="$(result images_per_s)" 'BEGIN { printf "%.0f", r }')"
row "checkpoints written" "$(result saves)"
row "bytes written, against raw" "$(awk -v s="$(result stored_bytes)" -v r="$(result raw_bytes)" \
    'BEGIN { printf "%.1f MiB of %.1f MiB (%.1f %%)", s / 1048576, r / 1048576, 100 * s / r }')"
row "training stood still for each save" "$(awk -v b="$(result blocked_seconds_mean)" 'BEGIN { printf "%.1f ms", 1000 * b }')"
row "identical: $identical" "all $(stat -c %s twin-state/mnist-cnn/state.safetensors) bytes of both final states"
cd ..
