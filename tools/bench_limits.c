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
    static const char *const SAVE[] = {"ckpt", "-q", "save", "sparse.bin", NULL};
    static const char *const RESTORE[] = {"ckpt", "-q", "restore", "latest", "-o", "out", NULL};
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

typedef struct crowd {
    double save, show, log;
} crowd;

/* Medians of whole processes with what the store holds now. */
static int crowd_measure(crowd *out, bench *b, const char *dir, ckpt_error *err)
{
    static const char *const SAVE[] = {"ckpt", "-q", "save", "big.bin", NULL};
    static const char *const SHOW[] = {"ckpt", "show", "latest", NULL};
    static const char *const LOG[] = {"ckpt", "log", NULL};
    int rc = 0;
    double save[BENCH_ROUNDS_MAX], show[BENCH_ROUNDS_MAX], log[BENCH_ROUNDS_MAX];
    bench_run_result r;

    for (unsigned i = 0; i < b->rounds; i++) {
        TRY(bench_run(&r, dir, SAVE, err));
        save[i] = r.wall;
        TRY(bench_run(&r, dir, SHOW, err));
        show[i] = r.wall;
        TRY(bench_run(&r, dir, LOG, err));
        log[i] = r.wall;
    }
    *out = (crowd){bench_median(save, b->rounds), bench_median(show, b->rounds), bench_median(log, b->rounds)};
out:
    return rc;
}

/* 5 MiB that do not compress and never repeat. */
static int big_make(const char *path, float *data, ckpt_error *err)
{
    int rc = 0;
    uint32_t x = 12345;
    FILE *const file = fopen(path, "wbe");

    for (size_t i = 0; i < STATE_ELEMENTS; i++) {
        x = x * 1664525u + 1013904223u;
        data[i] = (float)(int32_t)x * 1e-9f;
    }
    if (!file || fwrite(data, sizeof *data, STATE_ELEMENTS, file) != STATE_ELEMENTS || fclose(file)) {
        rc = error_errno(err, errno, "write %s", path);
        goto out;
    }
out:
    return rc;
}

static int bench_crowd(bench *b, ckpt_error *err)
{
    int rc = 0;
    ckpt_store *store = NULL;
    char dir[FILE_PATH_MAX], file[FILE_PATH_MAX];
    size_t have = 0;
    crowd few, many;
    bench_run_result version;
    float *const data = calloc(STATE_ELEMENTS, sizeof *data);

    FAIL_IF_NULL(data, err);
    TRY(bench_store_new(&store, b, "crowd", err));
    TRY(path_join(dir, b->scratch, "crowd", err));
    TRY(path_join(file, dir, "big.bin", err));
    TRY(big_make(file, data, err));
    TRY(fill_to(store, &have, FEW, data, err));
    TRY(crowd_measure(&few, b, dir, err));
    TRY(fill_to(store, &have, MANY, data, err));
    TRY(crowd_measure(&many, b, dir, err));
    TRY(bench_run(&version, dir, VERSION, err));
    TRY(bench_row(b, "save of a 5 MB file with 2,000 checkpoints to that with 20", "times", many.save / few.save, "",
                  -1, "<= 1.5", err));
    TRY(bench_row(b, "show latest, same", "times", many.show / few.show, "", -1, "<= 1.5", err));
    TRY(bench_row(b, "log of 2,000 checkpoints, a row", "us", (many.log - version.wall) / MANY * 1e6, "", -1, "<= 100",
                  err));
out:
    free(data);
    ckpt_store_close(store);
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
