#include "prune.h"
#include "repack.h"

#include "fail.h"

int ckpt_gc(ckpt_gc_result *result, ckpt_store *store, const ckpt_gc_options *options, ckpt_error *err)
{
    int rc = 0;
    ckpt_gc_options own = {.size = sizeof own};
    ckpt_gc_result unwanted, *const out = result ? result : &unwanted;
    ckpt_prune_result removed = {0};
    uint64_t segment_bytes = 0;

    *out = (ckpt_gc_result){0};
    TRY(store_options(&own, sizeof own, options, err));
    TRY(prune_unreachable(&removed, store, own.dry_run, err));
    out->removed_packs = removed.removed_packs;
    out->freed_bytes = removed.freed_bytes;
    if (own.repack)
        TRY(repack_run(out, store, own.dry_run, err));
    TRY(sweep_segments(&out->removed_segments, &segment_bytes, store, own.dry_run, err));
    out->freed_bytes += segment_bytes;
out:
    ckpt_prune_result_clear(&removed);
    return rc;
}
