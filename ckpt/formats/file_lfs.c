/* What Git LFS leaves in place of a large file that was not fetched: three lines of text about it. */
#include "fail.h"
#include "tensor_file.h"

#include <string.h>

#define FIRST_LINE  "version https://git-lfs.github.com/spec/v1\n"
#define POINTER_MAX 1024 /* of a pointer, as Git LFS says */

static bool lfs_probe(const unsigned char *head, size_t head_size, uint64_t size)
{
    const size_t line = strlen(FIRST_LINE);
    return size < POINTER_MAX && head_size >= line && memcmp(head, FIRST_LINE, line) == 0;
}

static int lfs_parse(tensor_file *out, const byte_source *source, ckpt_error *err)
{
    (void)out, (void)source;
    return error_set(err, CKPT_EFORMAT, "this is a Git LFS pointer, not a checkpoint; `git lfs pull` fetches the file");
}

const tensor_format FORMAT_LFS = {"lfs", lfs_probe, lfs_parse};
