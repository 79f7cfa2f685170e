/* <ckpt/export.h>: checkpoints as ordinary files, for programs that know nothing of ckpt.
 *
 *     ckpt_content *content = NULL;
 *     const ckpt_export_options options = {.size = sizeof options, .format = CKPT_EXPORT_NPZ};
 *     ckpt_error err;
 *     int rc = ckpt_content_open_file(&content, "model.pt", &err);      // or ckpt_content_open for a checkpoint
 *     if (!rc)
 *         rc = ckpt_export(NULL, content, "model.npz", &options, &err);
 *     if (rc)
 *         fprintf(stderr, "%s\n", err.message);
 *     ckpt_content_close(content);
 *
 * The rules of <ckpt/store.h> hold. A file appears under its name when it is whole and durable; a call that is stopped
 * or fails leaves what was there before. Memory does not grow with tensors. */
#ifndef CKPT_EXPORT_H
#define CKPT_EXPORT_H

#include <ckpt/store.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum ckpt_export_format {
    CKPT_EXPORT_SAFETENSORS = 0,
    CKPT_EXPORT_NPZ = 1,  /* not bf16 and 8-bit floats, which NumPy has not: CKPT_EUSAGE unless they are converted */
    CKPT_EXPORT_TORCH = 2 /* a dict of tensors by name, as torch.save writes it, for torch.load(weights_only=True) */
} ckpt_export_format;

typedef struct ckpt_export_options {
    size_t size;
    ckpt_export_format format;
    ckpt_dtype dtype; /* all floats are written as CKPT_F16, CKPT_BF16, CKPT_F32 or CKPT_F64; 0: each as it is */
    const char *const *only;
    size_t only_count; /* tensors whose names fit one of these patterns, as in ckpt_save_options.drop; 0: all */
    const char *file;  /* tensors of this file of the content alone; NULL: of all */
    bool overwrite;    /* without it an existing file is CKPT_ECONFIRM */
} ckpt_export_options;

typedef struct ckpt_export_result {
    uint64_t tensors, bytes;     /* bytes of the file */
    uint64_t converted;          /* tensors of another type than they had */
    char lossy[CKPT_LOSSY_SIZE]; /* "" when every value is as it was: "bf16: 62 tensors, largest relative error ..." */
    uint64_t values_left_out;    /* strings beside the tensors, for which only safetensors has a place */
} ckpt_export_result;

/* Writes tensors of the content into one file, row-major, each on its own also where they shared bytes. A name that
 * several files of the content have gets the file's path and a colon in front. `result` may be NULL. CKPT_ENOTFOUND:
 * nothing fits; CKPT_EUSAGE: the format cannot hold a type or a name. */
CKPT_API int ckpt_export(ckpt_export_result *result, ckpt_content *content, const char *path,
                         const ckpt_export_options *options, ckpt_error *err);

typedef struct ckpt_bundle_result {
    char id[CKPT_ID_SIZE];
    uint64_t packs, bytes;     /* of the bundle; of an import those that were new */
    uint64_t packs_there;      /* of an import: those that the store had already */
    uint64_t tags, tags_there; /* set, or of an import: not set, as they name another checkpoint of the store */
} ckpt_bundle_result;

/* Writes the bundle of a checkpoint (`name` as for ckpt_find): a zip archive of a store that holds it alone, with all
 * packs it needs and its tags; `unzip` makes a store of it. Each pack is compared with its SHA-256 on the way. An
 * existing file is CKPT_ECONFIRM without `overwrite`. */
CKPT_API int ckpt_bundle_write(ckpt_bundle_result *result, ckpt_store *store, const char *name, const char *path,
                               bool overwrite, ckpt_error *err);
/* Brings the checkpoint of a bundle into the store, with its id, time and place among the others. Nothing is believed
 * before its SHA-256 is right; packs first, the checkpoint last, so that it is there whole or not at all. A tag that
 * names another checkpoint already stays where it is. CKPT_EFORMAT: no bundle, CKPT_EDATA: a damaged one, CKPT_EVERSION
 * for one of a newer ckpt. */
CKPT_API int ckpt_bundle_import(ckpt_bundle_result *result, ckpt_store *store, const char *path, ckpt_error *err);

#ifdef __cplusplus
}
#endif
#endif
