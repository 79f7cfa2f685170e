/* .keras: a zip archive in which Keras 3 keeps a model; its weights are an HDF5 file.
 *
 *   metadata.json  config.json  model.weights.h5 */
#include "fail.h"
#include "zip_member.h"

#define WEIGHTS_NAME "model.weights.h5"
#define CONFIG_NAME  "config.json"

static int keras_parse(tensor_file *out, const byte_source *source, ckpt_error *err)
{
    int rc = 0;
    zip_dir dir = {0};
    size_t weights_count, config_count;
    uint64_t offset;

    TRY(zip_member_directory(&dir, out, source, err));
    const zip_entry *const weights = zip_dir_find(&weights_count, &dir, WEIGHTS_NAME);
    (void)zip_dir_find(&config_count, &dir, CONFIG_NAME);
    FAIL_IF(!weights || config_count == 0, err, CKPT_ENOTFOUND, "not a Keras archive");
    FAIL_IF(weights_count > 1, err, CKPT_EFORMAT, "Keras archive: has two " WEIGHTS_NAME);
    TRY(zip_member_locate(&offset, weights, source, err));
    TRY(tensor_file_add_part(out, &FORMAT_HDF5, source, offset, weights->size, "", err));
out:
    zip_dir_clear(&dir);
    return rc;
}

const tensor_format FORMAT_KERAS = {"keras", zip_member_probe, keras_parse};
