/* How fast the codec alone is on one core, beside zipnn: ckpt-bench-codec (tests/ckpt/codec_speed.c) sees the private
 * headers, so it is a program of its own, which the build puts beside this one. */
#include "bench.h"

#include "fail.h"
#include "file.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HELPER    "ckpt-bench-codec"
#define REFERENCE "state_0050.pt"
#define MODES_MAX 16

/* One mode with or without reference: a rate for each round, in bytes a second. */
typedef struct mode_rates {
    char name[16];
    bool needs_reference;
    double encode[BENCH_ROUNDS_MAX], decode[BENCH_ROUNDS_MAX];
    size_t count;
} mode_rates;

typedef struct rates {
    mode_rates modes[MODES_MAX];
    size_t mode_count;
    double zipnn[4][BENCH_ROUNDS_MAX]; /* encode, decode, and both of its delta */
} rates;

static int helper_path(char out[FILE_PATH_MAX], ckpt_error *err)
{
    int rc = 0;
    char self[FILE_PATH_MAX], dir[FILE_PATH_MAX];
    const ssize_t size = readlink("/proc/self/exe", self, sizeof self - 1);

    if (size < 0) {
        rc = error_errno(err, errno, "find this program");
        goto out;
    }
    self[size] = 0;
    TRY(path_parent(dir, self, err));
    TRY(path_join(out, dir, HELPER, err));
out:
    return rc;
}

static mode_rates *mode_find(rates *r, const char *name)
{
    for (size_t i = 0; i < r->mode_count; i++)
        if (strcmp(r->modes[i].name, name) == 0)
            return &r->modes[i];
    if (r->mode_count == MODES_MAX)
        return NULL;
    mode_rates *const added = &r->modes[r->mode_count++];
    snprintf(added->name, sizeof added->name, "%s", name);
    return added;
}

static int mode_read(rates *r, json_t *row, ckpt_error *err)
{
    int rc = 0, needs = 0;
    const char *name = NULL;
    json_int_t bytes = 0;
    double encode = 0, decode = 0;
    json_error_t why;

    FAIL_IF(json_unpack_ex(row, &why, 0, "{s:s, s:b, s:I, s:F, s:F}", "mode", &name, "needs_reference", &needs, "bytes",
                           &bytes, "encode_seconds", &encode, "decode_seconds", &decode),
            err, CKPT_EIO, "%s: %s", HELPER, why.text);
    mode_rates *const m = mode_find(r, name);
    if (!m || m->count == BENCH_ROUNDS_MAX)
        goto out;
    m->needs_reference = needs;
    m->encode[m->count] = (double)bytes / encode;
    m->decode[m->count++] = (double)bytes / decode;
out:
    return rc;
}

/* One round of ours. With a reference only the modes that use it count: the others are the first run's. */
static int helper_run(rates *r, const bench *b, const char *helper, const char *file, const char *reference,
                      ckpt_error *err)
{
    int rc = 0;
    char output[FILE_PATH_MAX];
    json_t *rows = NULL, *row = NULL;
    json_error_t why;
    size_t i = 0;
    bench_run_result unused;
    const char *const words[] = {HELPER, file, reference, NULL};

    TRY(path_join(output, b->scratch, "codec.json", err));
    TRY(bench_command_run(&unused, &(bench_command){.program = helper, .words = words, .output = output}, err));
    rows = json_load_file(output, 0, &why);
    FAIL_IF(!json_is_array(rows), err, CKPT_EIO, "%s printed no JSON: %s", HELPER, why.text);
    json_array_foreach(rows, i, row) if (json_is_true(json_object_get(row, "needs_reference")) == (reference != NULL))
        TRY(mode_read(r, row, err));
out:
    json_decref(rows);
    return rc;
}

static int round_run(rates *r, size_t round, bench *b, const char *helper, ckpt_error *err)
{
    int rc = 0;
    char file[FILE_PATH_MAX], reference[FILE_PATH_MAX];
    double zipnn[4];

    TRY(path_join(file, b->peers, BENCH_STATE_LAST, err));
    TRY(path_join(reference, b->peers, REFERENCE, err));
    TRY(helper_run(r, b, helper, file, NULL, err));
    TRY(helper_run(r, b, helper, file, reference, err));
    TRY(bench_peer_ask(zipnn, 4, b->peer, err, "zipnn_speed\t%s\t%s", reference, file));
    for (size_t i = 0; i < 4; i++)
        r->zipnn[i][round] = zipnn[i];
out:
    return rc;
}

static int mode_rows(bench *b, mode_rates *m, const double zipnn[4], ckpt_error *err)
{
    int rc = 0;
    char what[96];
    const char *const peer = m->needs_reference ? "zipnn delta, one thread" : "zipnn, one thread";
    const double *const theirs = m->needs_reference ? zipnn + 2 : zipnn;

    snprintf(what, sizeof what, "codec alone, one core: encode, mode %s", m->name);
    TRY(bench_row(b, what, "GB/s", bench_median(m->encode, m->count) / 1e9, peer, theirs[0] / 1e9, ">= 1 times", err));
    snprintf(what, sizeof what, "codec alone, one core: decode, mode %s", m->name);
    TRY(bench_row(b, what, "GB/s", bench_median(m->decode, m->count) / 1e9, peer, theirs[1] / 1e9, ">= 1 times", err));
out:
    return rc;
}

int bench_codec_speed(bench *b, ckpt_error *err)
{
    int rc = 0;
    char helper[FILE_PATH_MAX];
    double zipnn[4];
    rates *const r = calloc(1, sizeof *r);

    FAIL_IF_NULL(r, err);
    TRY(helper_path(helper, err));
    if (!b->peer || access(helper, X_OK)) {
        session_note(b->s, "no speeds of the codec alone: that takes the peers, and %s beside this program", HELPER);
        goto out;
    }
    for (unsigned round = 0; round < b->rounds; round++)
        TRY(round_run(r, round, b, helper, err));
    for (size_t i = 0; i < 4; i++)
        zipnn[i] = bench_median(r->zipnn[i], b->rounds);
    for (size_t i = 0; i < r->mode_count; i++)
        TRY(mode_rows(b, &r->modes[i], zipnn, err));
out:
    free(r);
    return rc;
}
