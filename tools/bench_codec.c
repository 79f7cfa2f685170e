#include "bench.h"

#include "fail.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zstd.h>

#define BENCH_FILE_MAX ((size_t)1 << 30)

/* Neighbouring checkpoints of real trainings; `bar` is the aim: the share of its bytes that the second may add. */
typedef struct pair {
    const char *what, *reference, *current;
    double bar;
} pair;

static const pair PAIRS[] = {
    {"SGD 100 to 150", "resnet18w16-sgd-step0100.pt", "resnet18w16-sgd-step0150.pt", 0.810},
    {"SGD 500 to 550", "resnet18w16-sgd-step0500.pt", "resnet18w16-sgd-step0550.pt", 0.755},
    {"SGD 550 to 600", "resnet18w16-sgd-step0550.pt", "resnet18w16-sgd-step0600.pt", 0.722},
    {"AdamW 200 to 250", "resnet18w16-adam-step0200.pt", "resnet18w16-adam-step0250.pt", 0.749},
    {"AdamW 250 to 300", "resnet18w16-adam-step0250.pt", "resnet18w16-adam-step0300.pt", 0.724},
};

static const char *const GOLDEN[] = {
    "torch/bfloat16.pt",
    "torch/checkpoint.pt",
    "torch/float16.pt",
    "torch/int64.pt",
    "torch/large_shape.pt",
    "torch/legacy_shared_storage.pt",
    "torch/mixed_types.pt",
    "torch/mnist.pt",
    "torch/mnist.safetensors",
    "torch/nested_dict.pt",
    "torch/noncontiguous_tensor.zip.pt",
    "torch/simple_legacy.pt",
    "torch/special_values.pt",
    "torch/storage_view.legacy.pt",
    "torch/tensors.legacy.pt",
    "torch/tensors.zip.pt",
    "torch/test.npz",
    "trajectory-tiny/adamw_bf16_step_30.pt",
    "trajectory-tiny/adamw_bf16_step_40.pt",
    "trajectory-tiny/checkpoint_epoch_1.pt",
    "trajectory-tiny/checkpoint_epoch_2.pt",
    "trajectory-tiny/checkpoint_epoch_3.pt",
    "trajectory-tiny/model_epoch_1.safetensors",
    "trajectory-tiny/model_epoch_2.safetensors",
    "trajectory-tiny/model_epoch_3.safetensors",
};

static int sample_path(char out[FILE_PATH_MAX], const bench *b, const char *folder, const char *name, ckpt_error *err)
{
    int rc = 0;
    char dir[FILE_PATH_MAX];

    TRY(path_join(dir, b->samples, folder, err));
    TRY(path_join(out, dir, name, err));
out:
    return rc;
}

static int save_one(ckpt_save_result *result, ckpt_store *store, const char *path, ckpt_error *err)
{
    return ckpt_save_files(result, store, &path, 1, NULL, err);
}

static double share(const ckpt_save_result *r)
{
    return (double)r->stored_bytes / (double)r->raw_bytes;
}

static int zstd3_size(size_t *coded, const char *path, ckpt_error *err)
{
    int rc = 0;
    char *data = NULL;
    void *out = NULL;
    size_t size = 0;

    TRY(file_read_all(&data, &size, path, BENCH_FILE_MAX, err));
    const size_t room = ZSTD_compressBound(size);
    out = malloc(room);
    FAIL_IF_NULL(out, err);
    *coded = ZSTD_compress(out, room, data, size, 3);
    FAIL_IF(ZSTD_isError(*coded), err, CKPT_ENOMEM, "zstd: %s", ZSTD_getErrorName(*coded));
out:
    free(data);
    free(out);
    return rc;
}

/* Peers for one pair: zstd -3 of the file, zipnn by the better mode of each class, all plain, all delta. */
static int pair_peers(bench *b, const pair *p, const char *reference, const char *current, double ours, ckpt_error *err)
{
    int rc = 0;
    size_t zstd = 0;
    uint64_t size = 0;
    int fd = -1;
    double zipnn[3];
    char what[96];

    TRY(file_open(&fd, &size, current, err));
    TRY(zstd3_size(&zstd, current, err));
    snprintf(what, sizeof what, "%s: same", p->what);
    TRY(bench_row(b, what, "of raw", ours, "zstd -3", (double)zstd / (double)size, "", err));
    if (b->peer) {
        TRY(bench_peer_ask(zipnn, 3, b->peer, err, "zipnn\t%s\t%s", reference, current));
        TRY(bench_row(b, what, "of raw", ours, "zipnn, better mode by class", zipnn[0] / (double)size, "", err));
        TRY(bench_row(b, what, "of raw", ours, "zipnn delta", zipnn[2] / (double)size, "", err));
    }
out:
    file_close(&fd);
    return rc;
}

static int bench_pair(bench *b, const pair *p, ckpt_error *err)
{
    int rc = 0;
    ckpt_store *store = NULL;
    ckpt_save_result first, second;
    char reference[FILE_PATH_MAX], current[FILE_PATH_MAX], bar[32], what[96];

    TRY(sample_path(reference, b, "trajectory", p->reference, err));
    TRY(sample_path(current, b, "trajectory", p->current, err));
    TRY(bench_store_new(&store, b, "pair", err));
    TRY(save_one(&first, store, reference, err));
    TRY(save_one(&second, store, current, err));
    snprintf(bar, sizeof bar, "<= %.3f", p->bar);
    TRY(bench_row(b, p->what, "of raw", share(&second), "", -1, bar, err));
    TRY(pair_peers(b, p, reference, current, share(&second), err));
    snprintf(what, sizeof what, "%s: reference as keyframe", p->what);
    TRY(bench_row(b, what, "of raw", share(&first), "", -1, "<= 0.850", err));
out:
    ckpt_store_close(store);
    return rc;
}

/* Files of one folder into one store, one after the other; the last one's share is the row. */
static int bench_row_of(bench *b, const char *what, const char *folder, const char *const *names, size_t count,
                        const char *bar, ckpt_error *err)
{
    int rc = 0;
    ckpt_store *store = NULL;
    ckpt_save_result last = {0};
    char path[FILE_PATH_MAX];

    TRY(bench_store_new(&store, b, "row", err));
    for (size_t i = 0; i < count; i++) {
        TRY(sample_path(path, b, folder, names[i], err));
        TRY(save_one(&last, store, path, err));
    }
    TRY(bench_row(b, what, "of raw", share(&last), "", -1, bar, err));
out:
    ckpt_store_close(store);
    return rc;
}

/* The golden file that comes nearest to its bar, zstd -3 plus 1 % plus 64 bytes. */
static int bench_golden(bench *b, ckpt_error *err)
{
    int rc = 0;
    double worst = -1;
    const char *worst_name = "";
    ckpt_store *store = NULL;
    char path[FILE_PATH_MAX], what[160];

    for (size_t i = 0; i < sizeof GOLDEN / sizeof *GOLDEN; i++) {
        ckpt_save_result r;
        size_t zstd = 0;
        TRY(path_join(path, b->samples, GOLDEN[i], err));
        TRY(bench_store_new(&store, b, "golden", err));
        TRY(save_one(&r, store, path, err));
        ckpt_store_close(store);
        store = NULL;
        TRY(zstd3_size(&zstd, path, err));
        const double ratio = (double)r.coded_bytes / ((double)zstd * 1.01 + 64);
        if (ratio > worst) {
            worst = ratio;
            worst_name = GOLDEN[i];
        }
    }
    snprintf(what, sizeof what, "%zu small files: coded chunks of the worst (%s) to zstd -3 + 1 %% + 64",
             sizeof GOLDEN / sizeof *GOLDEN, worst_name);
    TRY(bench_row(b, what, "times", worst, "", -1, "<= 1", err));
out:
    ckpt_store_close(store);
    return rc;
}

int bench_codec(bench *b, ckpt_error *err)
{
    static const char *const ROW[] = {"resnet18w16-sgd-step0500.pt", "resnet18w16-sgd-step0550.pt",
                                      "resnet18w16-sgd-step0600.pt"};
    static const char *const MODEL[] = {"checkpoint_epoch_2.pt", "model_epoch_2.safetensors"};
    int rc = 0;

    for (size_t i = 0; i < sizeof PAIRS / sizeof *PAIRS; i++)
        TRY(bench_pair(b, &PAIRS[i], err));
    TRY(bench_row_of(b, "SGD 500, 550, 600 into one store: the third", "trajectory", ROW, 3, "<= 0.722", err));
    TRY(bench_row_of(b, "model_epoch_2.safetensors after checkpoint_epoch_2.pt", "trajectory-tiny", MODEL, 2, "<= 0.06",
                     err));
    TRY(bench_golden(b, err));
    if (b->peer) {
        double rates[2];
        char path[FILE_PATH_MAX];
        TRY(path_join(path, b->peers, "state_0100.pt", err));
        if (access(path, R_OK) == 0) {
            TRY(bench_peer_ask(rates, 2, b->peer, err, "zipnn_rate\t%s", path));
            TRY(bench_row(b, "zipnn encode, one thread", "GB/s", rates[0] / 1e9, "", -1, "", err));
            TRY(bench_row(b, "zipnn decode, one thread", "GB/s", rates[1] / 1e9, "", -1, "", err));
        }
    }
out:
    return rc;
}
