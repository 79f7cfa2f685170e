#include "verify.h"

#include "fail.h"
#include "pack_parity.h"

#include <inttypes.h>

static int parity_check(verifier *v, const reach_pack *p, ckpt_error *err)
{
    int rc = 0;
    char hex[SHA256_HEX_SIZE];
    pack_parity parity = {.fd = -1};
    pack_loss loss = {0};
    ckpt_error why = {0};

    if (pack_parity_open(&parity, v->store->parity_dir, &p->name, &why)) {
        TRY(error_pass_own(err, &why));
        if (why.code != CKPT_ENOTFOUND && why.code != CKPT_EVERSION)
            TRY(verify_fault(v, &p->name, NULL, err, "%s", why.message));
        goto out;
    }
    TRY(pack_parity_survey(&loss, &parity, -1, 0, err)); /* the pack's own bytes are checked by its name */
    const uint64_t bytes = parity.layout.parity_blocks * parity.layout.block_size;
    v->result->bytes_read += bytes;
    TRY(verify_progress(v, 0, err));
    sha256_hex(hex, &p->name);
    if (loss.lost_parity > 0)
        TRY(verify_fault(v, &p->name, NULL, err, "parity of pack %.8s: %" PRIu64 " of %" PRIu64 " blocks are damaged",
                         hex, loss.lost_parity, parity.layout.parity_blocks));
    else if (!parity.whole)
        TRY(verify_fault(v, &p->name, NULL, err, "parity of pack %.8s: one of its ends is damaged", hex));
out:
    pack_loss_clear(&loss);
    pack_parity_close(&parity);
    return rc;
}

int verify_parity(verifier *v, ckpt_error *err)
{
    int rc = 0;

    for (uint32_t i = 0; i < v->reach.count; i++)
        if (verify_wants(v, &v->reach.packs[i]))
            TRY(parity_check(v, &v->reach.packs[i], err));
out:
    return rc;
}
