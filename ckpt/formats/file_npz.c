/* .npz: a zip archive whose members NAME.npy are arrays. numpy.savez stores them as they are; what savez_compressed
 * packed, and members that hold no plain numbers, stay bytes between. */
#include "fail.h"
#include "npy.h"
#include "zip_member.h"

#include <stdlib.h>
#include <string.h>

#define SUFFIX      ".npy"
#define SUFFIX_SIZE 4

/* The member's name without the suffix, malloc'ed; NULL in *name for a member that is no array. */
static int member_name(char **name, const zip_entry *entry, ckpt_error *err)
{
    *name = NULL;
    if (entry->name_size <= SUFFIX_SIZE ||
        memcmp(entry->name + entry->name_size - SUFFIX_SIZE, SUFFIX, SUFFIX_SIZE) != 0)
        return 0;
    *name = strndup(entry->name, entry->name_size - SUFFIX_SIZE);
    return *name ? 0 : error_memory(err);
}

static int member_add(tensor_file *out, tensor_view *view, const zip_entry *entry, const byte_source *source,
                      ckpt_error *err)
{
    int rc = 0;
    uint64_t offset;
    TRY(zip_member_locate(&offset, entry, source, err));
    TRY(npy_view(view, source, offset, entry->size, err));
    TRY(tensor_file_add(out, view, source->size, err));
out:
    return rc;
}

static int npz_parse(tensor_file *out, const byte_source *source, ckpt_error *err)
{
    int rc = 0;
    zip_dir dir = {0};
    tensor_view view = {0};
    size_t arrays = 0;

    TRY(zip_member_directory(&dir, out, source, err));
    for (size_t i = 0; i < dir.count; i++) {
        view = (tensor_view){0};
        TRY(member_name(&view.name, &dir.entries[i], err));
        if (!view.name)
            continue;
        arrays++;
        rc = member_add(out, &view, &dir.entries[i], source, err);
        free(view.name);
        view.name = NULL;
        if (rc && rc != CKPT_EFORMAT)
            goto out;
        rc = error_clear(err); /* such a member stays bytes between */
    }
    FAIL_IF(arrays == 0, err, CKPT_ENOTFOUND, "not an archive of arrays");
    TRY(zip_member_checks(out, &dir, source, err));
out:
    free(view.name);
    zip_dir_clear(&dir);
    return rc;
}

const tensor_format FORMAT_NPZ = {"npz", zip_member_probe, npz_parse};
