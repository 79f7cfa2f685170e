#include "bench.h"

#include "fail.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SPARSE_BYTES   ((off_t)8 << 30)
#define FEW            20
#define MANY           2000
#define STATE_ELEMENTS (1310720u) /* 5 MiB of fp32 */

static const char *const VERSION[] = {"ckpt", "version", NULL};

/* A file of 8 GiB in which one byte of each GiB is set. */
static int sparse_make(const char *path, ckpt_error *err)
{
    int rc = 0;
    const int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    if (fd < 0 || ftruncate(fd, SPARSE_BYTES)) {
        rc = error_errno(err, errno, "make %s", path);
        goto out;
    }
    for (off_t at = 0; at < SPARSE_BYTES; at += (off_t)1 << 30)
        if (pwrite(fd, "x", 1, at + 12345) != 1) {
            rc = error_errno(err, errno, "write %s", path);
            goto out;
        }
out:
    if (fd >= 0)
        close(fd);
    return rc;
}

static int bench_memory(bench *b, ckpt_error *err)
{
    static const char *const SAVE[] = {"ckpt", "-q", "-s", ".", "save", "sparse.bin", NULL};
    static const char *const RESTORE[] = {"ckpt", "-q", "-s", ".", "restore", "latest", "-o", "out", NULL};
    int rc = 0;
    ckpt_store *store = NULL;
    char dir[FILE_PATH_MAX], file[FILE_PATH_MAX];
    bench_run_result version, save, restore;
    const double mib = 1024 * 1024;

    TRY(bench_store_new(&store, b, "sparse", err));
    TRY(path_join(dir, b->scratch, "sparse", err));
    TRY(path_join(file, dir, "sparse.bin", err));
    TRY(sparse_make(file, err));
    TRY(bench_run(&version, dir, VERSION, err));
    TRY(bench_run(&save, dir, SAVE, err));
    TRY(bench_run(&restore, dir, RESTORE, err));
    TRY(bench_row(b, "peak memory of save above `ckpt version`, 8 GiB sparse file", "MiB",
                  ((double)save.rss_bytes - (double)version.rss_bytes) / mib, "", -1, "<= 96", err));
    TRY(bench_row(b, "peak memory of restore above `ckpt version`, same", "MiB",
                  ((double)restore.rss_bytes - (double)version.rss_bytes) / mib, "", -1, "<= 96", err));
out:
    ckpt_store_close(store);
    if (!rc)
        rc = bench_remove_tree(b, dir, err);
    return rc;
}

/* Small checkpoints until the store holds `count`. */
static int fill_to(ckpt_store *store, size_t *have, size_t count, float *data, ckpt_error *err)
{
    int rc = 0;

    for (; *have < count; ++*have) {
        for (size_t i = 0; i < 4096; i++)
            data[i] += (float)((i * 2654435761u + *have) % 1000) * 1e-6f;
        const ckpt_tensor t = {.name = "weight", .dtype = CKPT_F32, .rank = 1, .shape = {4096}, .data = data};
        ckpt_save_options options = CKPT_SAVE_OPTIONS_INIT;
        options.step = (int64_t)*have;
        TRY(ckpt_save_tensors(NULL, store, "small.safetensors", &t, 1, NULL, 0, &options, err));
    }
out:
    return rc;
}

/* A store of many checkpoints, and a file that is saved into it again and again. */
typedef struct crowd {
    char dir[FILE_PATH_MAX], file[FILE_PATH_MAX];
    ckpt_store *store;
    size_t have; /* checkpoints */
    float *data; /* [STATE_ELEMENTS] */
    uint32_t seed;
} crowd;

typedef struct crowd_times {
    double save, show, log, version;
} crowd_times;

/* 5 MiB that do not compress and never repeat, also not from call to call: what is saved is new each time. */
static int big_make(crowd *c, ckpt_error *err)
{
    int rc = 0;
    bool written = false;
    FILE *const file = fopen(c->file, "wbe");

    for (size_t i = 0; i < STATE_ELEMENTS; i++) {
        c->seed = c->seed * 1664525u + 1013904223u;
        c->data[i] = (float)(int32_t)c->seed * 1e-9f;
    }
    if (file) {
        written = fwrite(c->data, sizeof *c->data, STATE_ELEMENTS, file) == STATE_ELEMENTS;
        written = fclose(file) == 0 && written;
    }
    if (!written)
        rc = error_errno(err, errno, "write %s", c->file);
    return rc;
}

/* Medians of whole processes with what the store holds now. */
static int crowd_measure(crowd_times *out, bench *b, crowd *c, ckpt_error *err)
{
    static const char *const SAVE[] = {"ckpt", "-q", "-s", ".", "save", "big.bin", NULL};
    static const char *const SHOW[] = {"ckpt", "-s", ".", "show", "latest", NULL};
    static const char *const LOG[] = {"ckpt", "-s", ".", "log", NULL};
    int rc = 0;
    double save[BENCH_ROUNDS_MAX], show[BENCH_ROUNDS_MAX], log[BENCH_ROUNDS_MAX], version[BENCH_ROUNDS_MAX];
    bench_run_result r;

    for (unsigned i = 0; i < b->rounds; i++) {
        TRY(big_make(c, err));
        TRY(bench_run(&r, c->dir, SAVE, err));
        save[i] = r.wall;
        TRY(bench_run(&r, c->dir, SHOW, err));
        show[i] = r.wall;
        TRY(bench_run(&r, c->dir, LOG, err));
        log[i] = r.wall;
        TRY(bench_run(&r, c->dir, VERSION, err));
        version[i] = r.wall;
    }
    *out = (crowd_times){bench_median(save, b->rounds), bench_median(show, b->rounds), bench_median(log, b->rounds),
                         bench_median(version, b->rounds)};
out:
    return rc;
}

static int bench_crowd(bench *b, ckpt_error *err)
{
    int rc = 0;
    crowd c = {.data = calloc(STATE_ELEMENTS, sizeof *c.data), .seed = 12345};
    crowd_times few, many;

    FAIL_IF_NULL(c.data, err);
    TRY(bench_store_new(&c.store, b, "crowd", err));
    TRY(path_join(c.dir, b->scratch, "crowd", err));
    TRY(path_join(c.file, c.dir, "big.bin", err));
    TRY(fill_to(c.store, &c.have, FEW, c.data, err));
    TRY(crowd_measure(&few, b, &c, err));
    TRY(fill_to(c.store, &c.have, MANY, c.data, err));
    TRY(crowd_measure(&many, b, &c, err));
    TRY(bench_row(b, "save of a 5 MB file with 2,000 checkpoints to that with 20", "times", many.save / few.save, "",
                  -1, "<= 1.5", err));
    TRY(bench_row(b, "show latest, same", "times", many.show / few.show, "", -1, "<= 1.5", err));
    TRY(bench_row(b, "log of 2,000 checkpoints, a row", "us", (many.log - many.version) / MANY * 1e6, "", -1, "<= 100",
                  err));
out:
    free(c.data);
    ckpt_store_close(c.store);
    return rc;
}

int bench_limits(bench *b, ckpt_error *err)
{
    int rc = 0;

    TRY(bench_memory(b, err));
    TRY(bench_crowd(b, err));
out:
    return rc;
}
