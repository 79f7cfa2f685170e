/* Runs every file of the folders given through the fuzz target, so that seeds and past findings are tested with any
 * compiler. The name is printed first: after a crash the last line says which file did it. */
#include "fuzz.h"

#include "file.h"

#include <stdio.h>
#include <stdlib.h>

#define SEED_SIZE_MAX ((size_t)16 << 20)

typedef struct replay {
    const char *dir;
    size_t count;
} replay;

static int replay_file(void *payload, const char *name, ckpt_error *err)
{
    replay *run = payload;
    char path[FILE_PATH_MAX];
    char *data = NULL;
    size_t size = 0;

    int rc = path_join(path, run->dir, name, err);
    if (!rc)
        rc = file_read_all(&data, &size, path, SEED_SIZE_MAX, err);
    if (!rc) {
        printf("%s\n", path);
        fflush(stdout);
        /* No spare byte behind the input, so that the address sanitizer sees a read past its end. */
        data = realloc(data, size ? size : 1);
        LLVMFuzzerTestOneInput((const uint8_t *)data, size);
        run->count++;
    }
    free(data);
    return rc;
}

int main(int argc, char **argv)
{
    size_t count = 0;
    for (int i = 1; i < argc; i++) {
        replay run = {.dir = argv[i]};
        ckpt_error err = {0};
        if (dir_each(run.dir, replay_file, &run, &err)) {
            fprintf(stderr, "replay: %s\n", err.message);
            return 1;
        }
        count += run.count;
    }
    printf("%zu inputs\n", count);
    return count ? 0 : 1; /* a folder that lost its seeds is no pass */
}
