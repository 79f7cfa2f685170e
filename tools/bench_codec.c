#include "bench.h"

#include "fail.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BENCH_FILE_MAX ((size_t)1 << 30)

/* Neighbouring checkpoints of real trainings; `bar` is the aim: the share of its bytes that the second may add. */
typedef struct pair {
    const char *what, *reference, *current;
    double bar;
    const char *keyframe_bar;
} pair;

static const pair PAIRS[] = {
    {"SGD 100 to 150", "resnet18w16-sgd-step0100.pt", "resnet18w16-sgd-step0150.pt", 0.789, "<= 0.834"},
    {"SGD 500 to 550", "resnet18w16-sgd-step0500.pt", "resnet18w16-sgd-step0550.pt", 0.735, "<= 0.834"},
    {"SGD 550 to 600", "resnet18w16-sgd-step0550.pt", "resnet18w16-sgd-step0600.pt", 0.697, "<= 0.834"},
    {"AdamW 200 to 250", "resnet18w16-adam-step0200.pt", "resnet18w16-adam-step0250.pt", 0.733, ""},
    {"AdamW 250 to 300", "resnet18w16-adam-step0250.pt", "resnet18w16-adam-step0300.pt", 0.707, ""},
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

static int save_one(ckpt_save_result *result, ckpt_store *store, const char *path, ckpt_level level, ckpt_error *err)
{
    ckpt_save_options options = CKPT_SAVE_OPTIONS_INIT;

    options.level = level;
    return ckpt_save_files(result, store, &path, 1, &options, err);
}

static double share(const ckpt_save_result *r)
{
    return (double)r->stored_bytes / (double)r->raw_bytes;
}

/* Coded size of the whole file by zstd, as a share of it. */
static int zstd_share(double *share_out, const char *path, int level, ckpt_error *err)
{
    int rc = 0;
    char *data = NULL;
    size_t size = 0, coded = 0;

    TRY(file_read_all(&data, &size, path, BENCH_FILE_MAX, err));
    TRY(bench_zstd_size(&coded, data, size, level, err));
    *share_out = (double)coded / (double)size;
out:
    free(data);
    return rc;
}

/* Peers that need no other program: zstd of the file, byte planes of its floats by themselves and of the XOR. */
static int pair_library_peers(bench *b, const char *what, const char *reference, const char *current, double ours,
                              ckpt_error *err)
{
    static const int LEVELS[] = {3, 19};
    int rc = 0;
    char name[32];
    double share_of = 0;

    for (size_t i = 0; i < sizeof LEVELS / sizeof *LEVELS; i++) {
        TRY(zstd_share(&share_of, current, LEVELS[i], err));
        snprintf(name, sizeof name, "zstd -%d", LEVELS[i]);
        TRY(bench_row(b, what, "of raw", ours, name, share_of, "", err));
    }
    TRY(bench_planes_share(&share_of, current, NULL, err));
    TRY(bench_row(b, what, "of raw", ours, "byte planes, zstd -3", share_of, "", err));
    TRY(bench_planes_share(&share_of, current, reference, err));
    TRY(bench_row(b, what, "of raw", ours, "XOR planes, zstd -3", share_of, "", err));
out:
    return rc;
}

/* Those of the peers' process, each as a share of the file; one that is not installed answers less than 0. */
static int pair_process_peers(bench *b, const char *what, const char *reference, const char *current, double ours,
                              ckpt_error *err)
{
    static const char *const NAMES[] = {"xz -9", "openzl", "zipnn, better mode by class", "zipnn", "zipnn delta"};
    enum { COUNT = sizeof NAMES / sizeof *NAMES };
    int rc = 0;
    double shares[COUNT];

    TRY(bench_peer_ask(shares, COUNT, b->peer, err, "sizes\t%s\t%s", reference, current));
    for (size_t i = 0; i < COUNT; i++)
        if (shares[i] >= 0)
            TRY(bench_row(b, what, "of raw", ours, NAMES[i], shares[i], "", err));
out:
    return rc;
}

static int pair_peers(bench *b, const pair *p, const char *reference, const char *current, double ours, ckpt_error *err)
{
    int rc = 0;
    char what[96];

    snprintf(what, sizeof what, "%s: same", p->what);
    TRY(pair_library_peers(b, what, reference, current, ours, err));
    if (b->peer)
        TRY(pair_process_peers(b, what, reference, current, ours, err));
out:
    return rc;
}

/* What the first file takes, and what the second adds. */
static int pair_shares(double *first, double *second, bench *b, const char *reference, const char *current,
                       ckpt_level level, ckpt_error *err)
{
    int rc = 0;
    ckpt_store *store = NULL;
    ckpt_save_result saved;

    TRY(bench_store_new(&store, b, "pair", err));
    TRY(save_one(&saved, store, reference, level, err));
    *first = share(&saved);
    TRY(save_one(&saved, store, current, level, err));
    *second = share(&saved);
out:
    ckpt_store_close(store);
    return rc;
}

static int bench_pair(bench *b, const pair *p, ckpt_error *err)
{
    int rc = 0;
    double first = 0, second = 0, first_max = 0, second_max = 0;
    char reference[FILE_PATH_MAX], current[FILE_PATH_MAX], bar[32], what[96];

    TRY(sample_path(reference, b, "trajectory", p->reference, err));
    TRY(sample_path(current, b, "trajectory", p->current, err));
    TRY(pair_shares(&first, &second, b, reference, current, CKPT_LEVEL_DEFAULT, err));
    TRY(pair_shares(&first_max, &second_max, b, reference, current, CKPT_LEVEL_MAX, err));
    snprintf(bar, sizeof bar, "<= %.3f", p->bar);
    TRY(bench_row(b, p->what, "of raw", second, "", -1, bar, err));
    TRY(pair_peers(b, p, reference, current, second, err));
    snprintf(what, sizeof what, "%s: at level max", p->what);
    TRY(bench_row(b, what, "of raw", second_max, "", -1, bar, err));
    snprintf(what, sizeof what, "%s: reference as keyframe", p->what);
    TRY(bench_row(b, what, "of raw", first, "", -1, p->keyframe_bar, err));
    snprintf(what, sizeof what, "%s: the same at level max", p->what);
    TRY(bench_row(b, what, "of raw", first_max, "", -1, p->keyframe_bar, err));
out:
    return rc;
}

/* Files of one folder into one store, one after the other; the last one's share is the row. */
static int bench_row_of(bench *b, const char *what, const char *folder, const char *const *names, size_t count,
                        ckpt_level level, const char *bar, ckpt_error *err)
{
    int rc = 0;
    ckpt_store *store = NULL;
    ckpt_save_result last = {0};
    char path[FILE_PATH_MAX];

    TRY(bench_store_new(&store, b, "row", err));
    for (size_t i = 0; i < count; i++) {
        TRY(sample_path(path, b, folder, names[i], err));
        TRY(save_one(&last, store, path, level, err));
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
        double zstd = 0;
        TRY(path_join(path, b->samples, GOLDEN[i], err));
        TRY(bench_store_new(&store, b, "golden", err));
        TRY(save_one(&r, store, path, CKPT_LEVEL_DEFAULT, err));
        ckpt_store_close(store);
        store = NULL;
        TRY(zstd_share(&zstd, path, 3, err));
        const double ratio = (double)r.coded_bytes / (zstd * (double)r.raw_bytes * 1.01 + 64);
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

/* Weights that are kept in bf16, as for inference: those of a checkpoint, rounded. */
static int bench_bf16(bench *b, ckpt_error *err)
{
    int rc = 0;
    char path[FILE_PATH_MAX];
    bench_state state = {0};
    ckpt_store *store = NULL;
    ckpt_save_result saved;

    TRY(sample_path(path, b, "trajectory", "resnet18w16-sgd-step0600.pt", err));
    TRY(bench_state_load(&state, path, err));
    bench_state_keep(&state, "model.");
    bench_state_to_bf16(&state);
    TRY(bench_store_new(&store, b, "bf16", err));
    TRY(ckpt_save_tensors(&saved, store, NULL, state.tensors, state.count, NULL, 0, NULL, err));
    TRY(bench_row(b, "bf16 weights of SGD 600, without reference", "of raw", share(&saved), "", -1, "<= 0.66", err));
out:
    ckpt_store_close(store);
    bench_state_clear(&state);
    return rc;
}

/* States of the full width, ten steps apart, where tools/bench-peers.sh has made them. */
static int bench_wide(bench *b, ckpt_error *err)
{
    static const char *const PAIR[] = {"state_0050.pt", "state_0100.pt"};
    static const char *const ROW[] = {"state_0080.pt", "state_0090.pt", "state_0100.pt"};
    static const char *const DECAY[] = {"decay_0080.pt", "decay_0090.pt", "decay_0100.pt"};
    int rc = 0;
    bench wide = *b;

    wide.samples = b->peers;
    TRY(bench_row_of(&wide, "89 MB, SGD 50 to 100", ".", PAIR, 2, CKPT_LEVEL_DEFAULT, "", err));
    TRY(bench_row_of(&wide, "89 MB, SGD 80, 90, 100 into one store: the third", ".", ROW, 3, CKPT_LEVEL_DEFAULT,
                     "<= 0.697", err));
    TRY(bench_row_of(&wide, "89 MB, SGD 80, 90, 100 at level max: the third", ".", ROW, 3, CKPT_LEVEL_MAX, "<= 0.697",
                     err));
    TRY(bench_row_of(&wide, "89 MB, the same at the end of a decay: the third", ".", DECAY, 3, CKPT_LEVEL_DEFAULT,
                     "<= 0.697", err));
out:
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
    TRY(bench_row_of(b, "SGD 500, 550, 600 into one store: the third", "trajectory", ROW, 3, CKPT_LEVEL_DEFAULT,
                     "<= 0.697", err));
    TRY(bench_row_of(b, "SGD 500, 550, 600 at level max: the third", "trajectory", ROW, 3, CKPT_LEVEL_MAX, "<= 0.697",
                     err));
    TRY(bench_bf16(b, err));
    TRY(bench_row_of(b, "model_epoch_2.safetensors after checkpoint_epoch_2.pt", "trajectory-tiny", MODEL, 2,
                     CKPT_LEVEL_DEFAULT, "<= 0.06", err));
    TRY(bench_golden(b, err));
    if (bench_has_states(b)) {
        TRY(bench_wide(b, err));
        TRY(bench_codec_speed(b, err));
    }
out:
    return rc;
}
