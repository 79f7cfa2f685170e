# Tags, and what the retention policy would remove

three_epochs
title "Keep what matters"
say "A tag is a name of your own, and protects what it names:"
show ckpt tag baseline latest~1
show ckpt log

say "The policy in .ckpt/config.ini says what prune removes. What that would be:"
show ckpt prune --dry-run
say "The same question for a stricter policy:"
show ckpt prune --dry-run --keep "last 1, tagged"
