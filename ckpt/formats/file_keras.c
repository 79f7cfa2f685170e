/* .keras: a zip archive in which Keras 3 keeps a model; its weights are an HDF5 file.
 *
 *   metadata.json  config.json  model.weights.h5 */
#include "fail.h"
#include "keras.h"
#include "zip_member.h"

#define WEIGHTS_NAME "model.weights.h5"
#define CONFIG_NAME  "config.json"

static int weights_find(uint64_t *offset, uint64_t *size, tensor_file *file, const byte_source *source, ckpt_error *err)
{
    int rc = 0;
    zip_dir dir = {0};
    size_t weights_count, config_count;

    TRY(zip_member_directory(&dir, file, source, err));
    const zip_entry *const weights = zip_dir_find(&weights_count, &dir, WEIGHTS_NAME);
    (void)zip_dir_find(&config_count, &dir, CONFIG_NAME);
    FAIL_IF(!weights || config_count == 0, err, CKPT_ENOTFOUND, "not a Keras archive");
    FAIL_IF(weights_count > 1, err, CKPT_EFORMAT, "Keras archive: has two " WEIGHTS_NAME);
    TRY(zip_member_locate(offset, weights, source, err));
    *size = weights->size;
out:
    zip_dir_clear(&dir);
    return rc;
}

int keras_weights(uint64_t *offset, uint64_t *size, const byte_source *source, ckpt_error *err)
{
    tensor_file ignored = {0};
    return weights_find(offset, size, &ignored, source, err);
}

static int keras_parse(tensor_file *out, const byte_source *source, ckpt_error *err)
{
    int rc = 0;
    uint64_t offset = 0, size = 0;

    TRY(weights_find(&offset, &size, out, source, err));
    TRY(tensor_file_add_part(out, &FORMAT_HDF5, source, offset, size, "", err));
out:
    return rc;
}

const tensor_format FORMAT_KERAS = {"keras", zip_member_probe, keras_parse};
