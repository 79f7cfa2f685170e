/* Training beside PyTorch: the preset mnist-cnn and tools/bench/train_mnist.py, whole processes in turn. Each trains
 * two epochs, of which the first is the warm-up. */
#include "bench.h"

#include "fail.h"
#include "pool.h"
#include "print.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WORDS_MAX             24
#define OUTPUT_MAX            ((size_t)16 << 20) /* bytes that one training may print */
#define RUN_NAME              "bench"
#define PROFILE_STEPS         "20"
#define EPOCHS                "2"
#define EPOCHS_ACCURACY       "10"
#define EVERY                 "checkpoint.every=50"
#define NEVER                 "checkpoint.every=0"
#define CHANNELS_LAST         "channels_last"
#define DEFAULT_LAYOUT        "default"
#define VERSION_RUNS          10 /* of `ckpt version` in each round */
#define DEFAULT_LAYOUT_ROUNDS 3  /* each so many rounds the slow layout takes part */

/* What a training told, ours or the peer's. */
typedef struct told {
    double images_per_s; /* of its last epoch */
    double test_accuracy;
    double data_bytes;                  /* the peer's: of all images, as bytes */
    double seconds, mean_rate, blocked; /* ours: of training, images a second in it, seconds for each save */
    double flops, flops_per_s;          /* ours with a profile: of all training steps; the machine's limit */
    bench_run_result process;
} told;

/* One figure of each round. */
typedef struct series {
    double values[BENCH_ROUNDS_MAX];
    size_t count;
} series;

static void series_add(series *s, double value)
{
    s->values[s->count++] = value;
}

static double series_median(series *s)
{
    return bench_median(s->values, s->count);
}

/* ---- What a training prints ------------------------------------------------------------------------------------- */

static double number_of(const json_t *object, const char *key)
{
    return json_number_value(json_object_get(object, key));
}

/* Is it of the network, and not one of what stands beside it? */
static bool is_operation(const json_t *row)
{
    static const char *const OTHERS[] = {"adam", "gather", "save", "validation"};
    const char *const name = json_string_value(json_object_get(row, "operation"));

    for (size_t i = 0; name && i < sizeof OTHERS / sizeof *OTHERS; i++)
        if (strcmp(name, OTHERS[i]) == 0)
            return false;
    return name != NULL;
}

static void line_of_ours(told *out, const json_t *line)
{
    const char *const event = json_string_value(json_object_get(line, "event"));

    if (!event)
        return;
    if (strcmp(event, "epoch") == 0)
        out->images_per_s = number_of(line, "images_per_s");
    else if (strcmp(event, "result") == 0) {
        out->test_accuracy = number_of(line, "test_accuracy");
        out->mean_rate = number_of(line, "images_per_s");
        out->seconds = number_of(line, "seconds");
        out->blocked = number_of(line, "blocked_seconds_mean");
    } else if (strcmp(event, "limits") == 0)
        out->flops_per_s = number_of(line, "flops_per_s");
    else if (strcmp(event, "profile") == 0 && is_operation(line))
        out->flops += number_of(line, "flops");
}

static void line_of_peer(told *out, const json_t *line)
{
    if (json_object_get(line, "images_per_s"))
        out->images_per_s = number_of(line, "images_per_s");
    if (json_object_get(line, "test_acc")) {
        out->test_accuracy = number_of(line, "test_acc");
        out->data_bytes = number_of(line, "data_bytes");
    }
}

static int lines_read(told *out, const char *path, void (*take)(told *out, const json_t *line), ckpt_error *err)
{
    int rc = 0;
    char *text = NULL, *at, *line;
    size_t size = 0;

    TRY(file_read_all(&text, &size, path, OUTPUT_MAX, err));
    for (at = text; (line = strsep(&at, "\n")) != NULL;) {
        json_t *const object = *line ? json_loads(line, 0, NULL) : NULL;
        FAIL_IF(*line && !object, err, CKPT_EIO, "a training printed '%.80s'", line);
        if (object)
            take(out, object);
        json_decref(object);
    }
out:
    free(text);
    return rc;
}

/* ---- Running one ------------------------------------------------------------------------------------------------ */

static int train(told *out, bench_command *c, bench *b, void (*take)(told *out, const json_t *line), ckpt_error *err)
{
    int rc = 0;
    char output[FILE_PATH_MAX];

    *out = (told){0};
    TRY(path_join(output, b->scratch, "output", err));
    c->output = output;
    TRY(bench_command_run(&out->process, c, err));
    TRY(lines_read(out, output, take, err));
out:
    return rc;
}

/* Ours, into a fresh store in scratch/train; `more` are further words, ended by NULL. */
static int train_ours(told *out, bench *b, const char *const *more, ckpt_error *err)
{
    int rc = 0;
    ckpt_store *store = NULL;
    char dir[FILE_PATH_MAX], threads[UNITS_TEXT_SIZE];
    const char *words[WORDS_MAX] = {"ckpt",  "--json",    "-s",     ".",     "-j",     threads,
                                    "train", "mnist-cnn", "--data", b->data, "--name", RUN_NAME};
    size_t count = 12;

    for (size_t i = 0; more[i]; i++)
        words[count++] = more[i];
    snprintf(threads, sizeof threads, "%u", b->s->threads);
    TRY(bench_store_new(&store, b, "train", err));
    ckpt_store_close(store); /* the training has its own */
    TRY(path_join(dir, b->scratch, "train", err));
    TRY(train(out, &(bench_command){.dir = dir, .words = words}, b, line_of_ours, err));
out:
    return rc;
}

static int train_peer(told *out, bench *b, const char *layout, const char *epochs, const char *seed, ckpt_error *err)
{
    int rc = 0;
    char python[FILE_PATH_MAX], script[FILE_PATH_MAX], threads[UNITS_TEXT_SIZE];
    const char *const words[] = {python, script,   b->data, "--epochs",  epochs,  "--layout",
                                 layout, "--seed", seed,    "--threads", threads, NULL};

    snprintf(threads, sizeof threads, "%u", b->s->threads);
    TRY(path_join(python, b->peers, "venv/bin/python", err));
    TRY(path_join(script, b->peers, "train_mnist.py", err));
    TRY(train(out, &(bench_command){.program = python, .words = words}, b, line_of_peer, err));
out:
    return rc;
}

/* ---- Speed, memory, the rhythm ---------------------------------------------------------------------------------- */

typedef struct rounds {
    series ours, share, memory, blocked, rhythm_percent;
    series channels_last, default_layout, peer_memory;
    double data_bytes;
} rounds;

/* How far the training comes to what the machine can do at most. */
static int profile_take(rounds *r, bench *b, double images_per_s, ckpt_error *err)
{
    static const char *const PROFILE[] = {"--steps", PROFILE_STEPS, "--profile", NULL};
    int rc = 0;
    told t;

    TRY(train_ours(&t, b, PROFILE, err));
    const double images = t.mean_rate * t.seconds;
    if (images > 0 && t.flops_per_s > 0)
        series_add(&r->share, 100 * images_per_s * (t.flops / images) / t.flops_per_s);
out:
    return rc;
}

static int round_run(rounds *r, bench *b, unsigned round, ckpt_error *err)
{
    static const char *const WITH_SAVES[] = {"--epochs", EPOCHS, "--set", EVERY, NULL};
    static const char *const WITHOUT[] = {"--epochs", EPOCHS, "--set", NEVER, NULL};
    int rc = 0;
    const bool saves_first = round % 2 == 1; /* so that a machine that slows down is no cost of saving */
    told with, without, peer;

    if (saves_first)
        TRY(train_ours(&with, b, WITH_SAVES, err));
    TRY(train_ours(&without, b, WITHOUT, err));
    if (!saves_first)
        TRY(train_ours(&with, b, WITH_SAVES, err));
    series_add(&r->ours, with.images_per_s);
    series_add(&r->memory, (double)with.process.rss_bytes);
    series_add(&r->blocked, with.blocked);
    series_add(&r->rhythm_percent, 100 * (without.images_per_s / with.images_per_s - 1));
    TRY(profile_take(r, b, with.images_per_s, err));
    if (!b->peer)
        goto out;
    TRY(train_peer(&peer, b, CHANNELS_LAST, EPOCHS, "1", err));
    series_add(&r->channels_last, peer.images_per_s);
    series_add(&r->peer_memory, (double)peer.process.rss_bytes);
    r->data_bytes = peer.data_bytes;
    if (round % DEFAULT_LAYOUT_ROUNDS == 0) { /* it is slow */
        TRY(train_peer(&peer, b, DEFAULT_LAYOUT, EPOCHS, "1", err));
        series_add(&r->default_layout, peer.images_per_s);
    }
out:
    return rc;
}

static int rounds_print(bench *b, rounds *r, ckpt_error *err)
{
    int rc = 0;
    const double ours = series_median(&r->ours), memory = series_median(&r->memory);
    const double mib = 1024 * 1024;

    if (b->peer) {
        TRY(bench_row(b, "images/s, whole epochs with a save every 50 steps", "images/s", ours,
                      "PyTorch, channels last", series_median(&r->channels_last), ">= 1.5", err));
        TRY(bench_row(b, "images/s, same", "images/s", ours, "PyTorch, its default layout",
                      series_median(&r->default_layout), "", err));
        TRY(bench_row(b, "peak memory less the data set", "MiB", (memory - r->data_bytes) / mib, "PyTorch",
                      (series_median(&r->peer_memory) - r->data_bytes) / mib, "<= 0.25", err));
    } else {
        TRY(bench_row(b, "images/s, whole epochs with a save every 50 steps", "images/s", ours, "", -1, "", err));
        TRY(bench_row(b, "peak memory with the data set", "MiB", memory / mib, "", -1, "", err));
    }
    if (r->share.count)
        TRY(bench_row(b, "share of the measured peak of multiply-adds", "%", series_median(&r->share), "", -1, ">= 65",
                      err));
    TRY(bench_row(b, "what a save every 50 steps costs of the training time", "%", series_median(&r->rhythm_percent),
                  "", -1, "<= 2", err));
out:
    return rc;
}

/* The state of the last training, as a file: what saving it blocks is measured by itself too. */
static int blocking_print(bench *b, rounds *r, ckpt_error *err)
{
    int rc = 0;
    double copy = 0;
    ckpt_store *store = NULL;
    char dir[FILE_PATH_MAX], out[FILE_PATH_MAX], state[FILE_PATH_MAX];
    const ckpt_restore_options options = {.size = sizeof options, .dir = out};

    TRY(path_join(dir, b->scratch, "train", err));
    TRY(path_join(out, b->scratch, "restored", err));
    TRY(path_join(state, out, RUN_NAME "/state.safetensors", err));
    TRY(ckpt_store_open(&store, dir, NULL, err));
    TRY(ckpt_restore_files(NULL, store, "latest", &options, err));
    TRY(bench_blocking(&copy, b, state, "blocking time of a save, nothing else running", "<= 1.5 times", err));
    TRY(bench_row(b, "blocking time of a save while training, mean", "ms", series_median(&r->blocked) * 1e3,
                  "memcpy into faulted memory", copy * 1e3, "<= 1.5", err));
out:
    ckpt_store_close(store);
    return rc;
}

/* ---- Starting --------------------------------------------------------------------------------------------------- */

static int bench_start(bench *b, ckpt_error *err)
{
    static const char *const OURS[] = {"ckpt", "version", NULL}, *const CURL[] = {"curl", "--version", NULL};
    int rc = 0;
    double ours[BENCH_ROUNDS_MAX * VERSION_RUNS], peer[BENCH_ROUNDS_MAX * VERSION_RUNS];
    const size_t count = (size_t)b->rounds * VERSION_RUNS;
    bench_run_result r;

    if (bench_command_run(&r, &(bench_command){.program = "curl", .words = CURL}, NULL)) {
        TRY(bench_check(err));
        session_note(b->s, "no curl here to compare `ckpt version` with");
        goto out;
    }
    for (size_t i = 0; i < count; i++) {
        TRY(bench_run(&r, ".", OURS, err));
        ours[i] = r.wall;
        TRY(bench_command_run(&r, &(bench_command){.program = "curl", .words = CURL}, err));
        peer[i] = r.wall;
    }
    TRY(bench_row(b, "`version`, the whole process", "ms", bench_median(ours, count) * 1e3, "curl --version",
                  bench_median(peer, count) * 1e3, "<= 1", err));
out:
    return rc;
}

/* ---- Accuracy --------------------------------------------------------------------------------------------------- */

static double mean_of(const series *s)
{
    double sum = 0;

    for (size_t i = 0; i < s->count; i++)
        sum += s->values[i];
    return sum / (double)s->count;
}

/* Of the trainings there could be, estimated from these. */
static double deviation_of(const series *s)
{
    const double mean = mean_of(s);
    double sum = 0;

    for (size_t i = 0; i < s->count; i++)
        sum += (s->values[i] - mean) * (s->values[i] - mean);
    return s->count > 1 ? sqrt(sum / (double)(s->count - 1)) : 0;
}

static int accuracy_take(series *ours, series *peers, bench *b, unsigned seed, ckpt_error *err)
{
    int rc = 0;
    char text[UNITS_TEXT_SIZE];
    const char *const words[] = {"--epochs", EPOCHS_ACCURACY, "--seed", text, NULL};
    told t;

    snprintf(text, sizeof text, "%u", seed);
    TRY(train_ours(&t, b, words, err));
    series_add(ours, 100 * t.test_accuracy);
    if (!b->peer)
        goto out;
    TRY(train_peer(&t, b, CHANNELS_LAST, EPOCHS_ACCURACY, text, err));
    series_add(peers, 100 * t.test_accuracy);
out:
    return rc;
}

static int bench_accuracy(bench *b, ckpt_error *err)
{
    int rc = 0;
    series ours = {0}, peers = {0};
    char what[96];

    for (unsigned seed = 1; seed <= b->seeds; seed++)
        TRY(accuracy_take(&ours, &peers, b, seed, err));
    snprintf(what, sizeof what, "test accuracy after " EPOCHS_ACCURACY " epochs, mean of %u seeds", b->seeds);
    TRY(bench_row(b, what, "%", mean_of(&ours), "PyTorch", peers.count ? mean_of(&peers) : -1, "", err));
    TRY(bench_row(b, "test accuracy, standard deviation", "points", deviation_of(&ours), "PyTorch",
                  peers.count ? deviation_of(&peers) : -1, "", err));
    if (peers.count)
        TRY(bench_row(b, "test accuracy, distance of the means", "points", fabs(mean_of(&ours) - mean_of(&peers)), "",
                      -1, "<= 0.3", err));
out:
    return rc;
}

int bench_train(bench *b, ckpt_error *err)
{
    int rc = 0;
    rounds r = {0};
    char *const data = realpath(b->data, NULL); /* trainings run in another folder */

    if (!data) {
        rc = error_errno(err, errno, "read %s", b->data);
        goto out;
    }
    b->data = data;
    if (b->s->threads == 0)
        TRY(pool_threads_default(&b->s->threads, err)); /* both sides get the same */
    for (unsigned i = 0; i < b->rounds; i++)
        TRY(round_run(&r, b, i, err));
    TRY(rounds_print(b, &r, err));
    TRY(bench_start(b, err)); /* first: a child begins with the memory of this process, which grows below */
    TRY(blocking_print(b, &r, err));
    if (b->seeds)
        TRY(bench_accuracy(b, err));
out:
    free(data);
    return rc;
}
