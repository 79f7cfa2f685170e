# A disk loses bytes, and they come back

three_epochs
title "Mend what a disk spoiled"
say "Parity is a share of each pack that can be rebuilt, beside it. New stores get" \
    "it by \`ckpt init --parity 5%\`, this one now:"
show ckpt repair --add-parity 5%

say "A disk forgets 4 KiB in the middle of a pack. A check tells what it hurts:"
pack=$(find .ckpt/packs -size +100k -size -10M -print -quit)
chmod u+w "$pack"
dd if=/dev/zero of="$pack" bs=4096 seek=10 count=1 conv=notrunc status=none
status=0
show ckpt verify --full || status=$?
[ $status -eq 3 ] || broken "verify ends with status $status for a damaged pack"

say "Repairing rebuilds the pack until its SHA-256 is its name again:"
show ckpt repair --yes
show ckpt verify --full
[ "$(sha256sum <"$pack" | cut -d ' ' -f 1)" = "$(basename "$pack" .pack)" ] || broken "the pack is another one"
