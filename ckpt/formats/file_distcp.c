/* .distcp: what torch.distributed.checkpoint writes for one rank: parts one behind the other, each as torch.save wrote
 * it, and nothing that tells where one ends. That, and what they are, stands in the file `.metadata` beside it (dcp.h).
 *
 *   model.weight          a tensor that is one part, or the piece of it that begins at (0, 0, ...)
 *   model.weight@2,0      the piece of it that begins at (2, 0)
 *
 * A part that cannot be understood stays bytes. */
#include "checked.h"
#include "dcp.h"
#include "fail.h"
#include "file.h"
#include "zip_member.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PLACE_SIZE 24 /* "," and a number of 64 bits */

static int metadata_load(dcp_metadata *out, const byte_source *source, ckpt_error *err)
{
    int rc = 0;
    ckpt_error why = {0};
    char *data = NULL;
    size_t size;

    if (!source->beside)
        return error_set(err, CKPT_ENOTFOUND, "not in a folder");
    rc = source->beside(source, &data, &size, DCP_METADATA_NAME, DCP_METADATA_MAX, &why);
    if (rc == 0)
        rc = dcp_metadata_read(out, data, size, &why);
    free(data);
    if (rc && !error_pass_own(err, &why))
        return error_set(err, CKPT_ENOTFOUND, "not part of a distributed checkpoint: %s", why.message);
    return rc;
}

/* The part's name, with its place unless that is the beginning. */
static void part_name(char name[TENSOR_FILE_NAME_MAX + CKPT_RANK_MAX * PLACE_SIZE], const dcp_part *part)
{
    bool begins = true;
    size_t size = strlen(part->name); /* at most TENSOR_FILE_NAME_MAX */

    memcpy(name, part->name, size + 1);
    for (unsigned i = 0; i < part->rank; i++)
        begins &= part->first[i] == 0;
    for (unsigned i = 0; i < part->rank && !begins; i++)
        size += (size_t)snprintf(name + size, PLACE_SIZE, "%c%llu", i ? ',' : '@', (unsigned long long)part->first[i]);
}

static int distcp_parse(tensor_file *out, const byte_source *source, ckpt_error *err)
{
    int rc = 0;
    dcp_metadata metadata = {0};
    const char *const file = path_base(source->path);
    size_t parts = 0;
    uint64_t end = 0;

    TRY(metadata_load(&metadata, source, err));
    for (size_t i = 0; i < metadata.count; i++) {
        const dcp_part *const part = &metadata.parts[i];
        char name[TENSOR_FILE_NAME_MAX + CKPT_RANK_MAX * PLACE_SIZE];
        if (strcmp(part->file, file) != 0)
            continue;
        parts++;
        out->cut_off = !checked_range(part->offset, part->size, source->size);
        FAIL_IF(out->cut_off, err, CKPT_EFORMAT, "%.200s: lies outside of the file", part->name);
        /* Each byte is looked at once, however many parts there are said to be. */
        FAIL_IF(part->offset < end, err, CKPT_EFORMAT, "%.200s: begins before the part before it ends", part->name);
        end = part->offset + part->size;
        part_name(name, part);
        TRY(tensor_file_add_part(out, &FORMAT_TORCH, source, part->offset, part->size, name, err));
    }
    FAIL_IF(!parts, err, CKPT_ENOTFOUND, DCP_METADATA_NAME " does not name the file");
out:
    dcp_metadata_clear(&metadata);
    return rc;
}

const tensor_format FORMAT_DISTCP = {"distcp", zip_member_probe, distcp_parse};
