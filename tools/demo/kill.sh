# A save killed with SIGKILL inside its write loses nothing

three_epochs
title "Kill a save in the middle"
say "200 MiB that do not compress, so that the save takes a while. As soon as its" \
    "temporary file grows, the process gets SIGKILL: it cannot clean up."
ckpt -q tag first-epoch latest~2

half_written() { # the temporary file of a pack that is being written
    find .ckpt/tmp -name '*.tmp' -size +1024k -print -quit
}

# Killing needs the save to be still at work when the signal comes; where it was quicker, once more with other bytes.
killed=no
for attempt in 1 2 3 4 5; do
    head -c 200M /dev/urandom >runs/exp1/large.pt
    ckpt log >log_before.txt
    ckpt -q save -m "large, attempt $attempt" runs/exp1/large.pt &
    save=$!
    while kill -0 $save 2>/dev/null && [ -z "$(half_written)" ]; do :; done
    kill -KILL $save 2>/dev/null || true
    status=0
    wait $save 2>/dev/null || status=$?
    if [ $status -eq 137 ] && [ -n "$(half_written)" ]; then
        killed=yes
        break
    fi
    [ $status -eq 0 ] || [ $status -eq 137 ] || broken "the save ended by itself with status $status"
done
[ $killed = yes ] || broken "no save could be killed inside its write"

say "The save was killed. What it leaves is a temporary file, no checkpoint:"
show ls -s --block-size=1 .ckpt/tmp

say "All that was committed before is there, and good to the last byte:"
show ckpt log
ckpt log >log_after.txt
cmp log_before.txt log_after.txt || broken "the log has changed"
show ckpt verify --full
show ckpt restore first-epoch -o first
same_as_epoch 1 first/runs/exp1

say "And the next save works as if nothing had been:"
show ckpt save -m large runs/exp1/large.pt
show ckpt restore latest -o second
show cmp runs/exp1/large.pt second/runs/exp1/large.pt || broken "restored bytes differ"
echo "the same bytes"

say "What the killed save has left goes with the next prune:"
show ckpt prune
show ls -A .ckpt/tmp
[ -z "$(ls -A .ckpt/tmp)" ] || broken "the temporary file of the killed save is still there"
rm -rf first second runs/exp1/large.pt
